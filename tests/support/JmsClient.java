import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * A partner's program that knows JMS, and nothing of Sluice: it sends messages of each kind, or
 * receives them, and writes what each of them is as one line.
 *
 * <p>Arguments: send or receive, the broker's address, user, password, queue, how many, from which
 * number on, over how many seconds.
 */
public final class JmsClient {
  private static final long PATIENCE = 20_000;
  private static final int KINDS = 5;
  private static final int STREAMED = 3;
  private static final int GROUPS = 21;
  private static final int TRIES = 100;
  private static final long PAUSE = 200;
  // Not the usual one; the same for all, as brokers let those with a higher one pass.
  private static final int PRIORITY = 7;

  public static void main(String[] arguments) throws Exception {
    int count = Integer.parseInt(arguments[5]);
    int first = Integer.parseInt(arguments[6]);
    long pace = Long.parseLong(arguments[7]) * 1_000_000_000 / count;
    System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
    try (ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[1])) {
      factory.setDeserializationAllowList("java.lang,java.util");
      try (Connection connection = factory.createConnection(arguments[2], arguments[3])) {
        connection.start();
        try (Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
          Queue queue = session.createQueue(arguments[4]);
          if (arguments[0].equals("send")) {
            send(session, queue, first, count, pace);
          } else {
            receive(session, queue, count);
          }
        }
      }
    }
  }

  private static void send(Session session, Queue queue, int first, int count, long pace)
      throws Exception {
    MessageProducer producer = session.createProducer(queue);
    Queue answers = session.createQueue("answers");
    long began = System.nanoTime();
    for (int number = first; number < first + count; number++) {
      long early = began + (number - first) * pace - System.nanoTime();
      Thread.sleep(Math.max(0, early / 1_000_000));
      Message message = made(session, number);
      message.setJMSCorrelationID("c" + number);
      message.setJMSType("ORDER");
      message.setJMSReplyTo(answers);
      message.setStringProperty("JMSXGroupID", "g" + number % GROUPS);
      message.setIntProperty("number", number);
      message.setStringProperty("site", "Größe");
      message.setBooleanProperty("urgent", number % 2 == 0);
      message.setByteProperty("tiny", (byte) 7);
      message.setShortProperty("small", (short) -3);
      message.setLongProperty("far", 1L << 40);
      message.setFloatProperty("share", 0.25f);
      message.setDoubleProperty("price", 9.99);
      // Whatever is sent twice since its answer was lost, the broker knows by this.
      message.setStringProperty("_AMQ_DUPL_ID", "java-" + number);
      sendUntilAnswered(producer, message);
      System.out.println(told(message));
    }
  }

  private static void sendUntilAnswered(MessageProducer producer, Message message)
      throws Exception {
    for (int tries = 1; ; tries++) {
      try {
        producer.send(message, DeliveryMode.PERSISTENT, PRIORITY, 0);
        return;
      } catch (JMSException lost) {
        if (tries == TRIES) {
          throw lost;
        }
        System.out.println("sent again: " + lost.getMessage());
        Thread.sleep(PAUSE);
      }
    }
  }

  private static Message made(Session session, int number) throws Exception {
    switch (number % KINDS) {
      case 0:
        return session.createTextMessage("{\"n\": " + number + "}");
      case 1:
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, (byte) 0xff, (byte) number});
        return bytes;
      case 2:
        MapMessage map = session.createMapMessage();
        map.setLong("n", number);
        map.setString("name", "漢字");
        map.setByte("tiny", (byte) -1);
        map.setShort("small", (short) 300);
        map.setInt("whole", number);
        map.setFloat("share", 0.1f);
        map.setDouble("price", 0.1);
        map.setChar("letter", '字');
        map.setBytes("raw", new byte[] {0, (byte) 0xff});
        return map;
      case 3:
        StreamMessage stream = session.createStreamMessage();
        stream.writeLong(number);
        stream.writeString("second");
        stream.writeInt(number);
        return stream;
      default:
        return session.createObjectMessage("object " + number);
    }
  }

  private static void receive(Session session, Queue queue, int count) throws Exception {
    MessageConsumer consumer = session.createConsumer(queue);
    for (int received = 0; received < count; received++) {
      Message message = consumer.receive(PATIENCE);
      if (message == null) {
        return;
      }
      System.out.println(told(message));
    }
  }

  private static String told(Message message) throws Exception {
    TreeMap<String, Object> properties = new TreeMap<>();
    for (Object name : Collections.list(message.getPropertyNames())) {
      // Brokers add some of their own where they translate between protocols, bridges their trail.
      if (!name.toString().matches("(JMS|_AMQ|NATIVE_MESSAGE_ID|sluice_forwards).*")) {
        Object value = message.getObjectProperty(name.toString());
        properties.put(name.toString(), typed(value));
      }
    }
    return String.join(
        " | ",
        body(message),
        properties.toString(),
        message.getJMSCorrelationID(),
        message.getJMSType(),
        message.getJMSReplyTo().toString(),
        message.getStringProperty("JMSXGroupID"),
        "priority " + message.getJMSPriority(),
        "mode " + message.getJMSDeliveryMode());
  }

  private static String body(Message message) throws Exception {
    if (message instanceof TextMessage text) {
      return "text " + text.getText();
    }
    if (message instanceof BytesMessage bytes) {
      bytes.reset();
      byte[] read = new byte[(int) bytes.getBodyLength()];
      bytes.readBytes(read);
      return "bytes " + HexFormat.of().formatHex(read);
    }
    if (message instanceof MapMessage map) {
      TreeMap<String, Object> entries = new TreeMap<>();
      for (Object name : Collections.list(map.getMapNames())) {
        entries.put(name.toString(), typed(map.getObject(name.toString())));
      }
      return "map " + entries;
    }
    if (message instanceof StreamMessage stream) {
      stream.reset();
      List<String> entries = new ArrayList<>();
      for (int entry = 0; entry < STREAMED; entry++) {
        entries.add(typed(stream.readObject()));
      }
      return "stream " + entries;
    }
    return "object " + ((ObjectMessage) message).getObject();
  }

  private static String typed(Object value) {
    String text = value instanceof byte[] bytes ? HexFormat.of().formatHex(bytes) : "" + value;
    return value.getClass().getSimpleName() + " " + text;
  }
}
