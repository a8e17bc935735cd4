"""The store's two ways to send its requests: Kafka, and a JMS broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from integration.kafka.client import connection, new_producer
from integration.models import Provider, Queue
from payments import names
from payments.requests import Sent

FLUSH_SECONDS: Final = 3.0
FULL_QUEUE_SECONDS: Final = 0.5
ANSWER_SECONDS: Final = 10


class AtKafka:
    """The store's own producer. `unconfirmed` counts what Kafka has not taken."""

    def __init__(self) -> None:
        queue = Queue.objects.select_related("provider").get(name=names.REQUESTS)
        self._topic = queue.topic
        self._producer = new_producer(connection(queue.provider), None, {})
        self.unconfirmed = 0

    def send(self, sent: Sent) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    sent.value,
                    sent.payment.encode(),
                    headers=list(sent.headers),
                    on_delivery=self._report,
                )
                break
            except BufferError:
                # The broker is away and the queue is full: wait as a store would.
                self._producer.poll(FULL_QUEUE_SECONDS)
        self._producer.poll(0)

    def close(self) -> None:
        self.unconfirmed += self._producer.flush(FLUSH_SECONDS)

    def _report(self, error: object, _message: object) -> None:
        self.unconfirmed += error is not None


class AtBroker:
    """The store's connection to the JMS broker, for one thread."""

    def __init__(self, sender: Any) -> None:
        self._sender = sender

    def send(self, sent: Sent) -> bool:
        """Send it, and wait for the broker; returns whether it has it."""
        # The library is an extra.
        from proton import Message, ProtonException  # noqa: PLC0415 - see above

        text = sent.value.decode()
        try:
            self._sender.send(Message(id=sent.message_id, durable=True, body=text))
        except ProtonException:
            return False
        return True


@contextmanager
def at_broker() -> Iterator[AtBroker]:
    """Connect to the broker of the example's provider.

    Raises Provider.DoesNotExist, and ConnectionError when it cannot be reached from here.
    """
    # The library is an extra.
    try:
        from proton import ProtonException, symbol  # noqa: PLC0415 - see above
        from proton.reactor import LinkOption  # noqa: PLC0415 - see above
        from proton.utils import BlockingConnection  # noqa: PLC0415 - see above
    except ImportError as e:
        raise ConnectionError("the library for AMQP 1.0 is not installed") from e

    class AQueue(LinkOption):
        """Asks for a queue where the broker makes addresses by itself."""

        def apply(self, link: Any) -> None:
            link.target.capabilities.put_object(symbol("queue"))

    provider = Provider.objects.get(name=names.JMS_PROVIDER)
    try:
        connected = BlockingConnection(
            provider.bootstrap_servers,
            timeout=ANSWER_SECONDS,
            user=provider.username,
            password=provider.password,
            allow_insecure_mechs=True,
            allowed_mechs="PLAIN",
        )
    except ProtonException as e:
        raise ConnectionError(f"no JMS broker at {provider.bootstrap_servers}: {e}") from e
    try:
        yield AtBroker(connected.create_sender(names.JMS_ADDRESS, options=AQueue()))
    finally:
        connected.close()
