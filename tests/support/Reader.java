import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.zip.InflaterInputStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A partner's program that knows Kafka and the founding envelope, and nothing of Sluice.
 *
 * <p>Reads so many records of a topic's first partition and writes each as one JSON line: key,
 * headers, the envelope as it is, and its payload, decoded.
 */
public final class Reader {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  public static void main(String[] arguments) throws Exception {
    Properties wanted = new Properties();
    wanted.put("bootstrap.servers", arguments[0]);
    wanted.put("isolation.level", "read_committed");
    wanted.put("key.deserializer", ByteArrayDeserializer.class.getName());
    wanted.put("value.deserializer", ByteArrayDeserializer.class.getName());
    int missing = Integer.parseInt(arguments[2]);
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(wanted)) {
      TopicPartition place = new TopicPartition(arguments[1], 0);
      consumer.assign(List.of(place));
      consumer.seekToBeginning(List.of(place));
      long end = System.nanoTime() + PATIENCE.toNanos();
      while (missing > 0 && System.nanoTime() < end) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
          System.out.println(JSON.writeValueAsString(told(record)));
          missing--;
        }
      }
    }
    System.exit(missing > 0 ? 3 : 0);
  }

  private static ObjectNode told(ConsumerRecord<byte[], byte[]> record) throws Exception {
    ObjectNode found = JSON.createObjectNode();
    found.put("key", record.key() == null ? null : text(record.key()));
    ObjectNode headers = found.putObject("headers");
    for (Header header : record.headers()) {
      headers.put(header.key(), text(header.value()));
    }
    ObjectNode envelope = (ObjectNode) JSON.readTree(record.value());
    found.put("payload", payload(envelope));
    envelope.remove("payload");
    found.set("envelope", envelope);
    return found;
  }

  private static String payload(ObjectNode envelope) throws Exception {
    String written = envelope.get("payload").asText();
    if (!envelope.path("compressed").asText().equals("1")) {
      return written;
    }
    byte[] packed = Base64.getDecoder().decode(written);
    return text(new InflaterInputStream(new ByteArrayInputStream(packed)).readAllBytes());
  }

  private static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
