"""What a worker is given while it shuts down goes to another one at once."""

import uuid
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest
from celery import current_app
from kombu import Connection, Consumer, Producer, Queue
from kombu.message import Message

from crontasks.dispatch.requeuing import RequeuesAtShutdown
from crontasks.running import shutdown
from devstack.server import Server

pytestmark = pytest.mark.servers


class AConsumer:
    """Celery's consumer, as far as its parts know it, with a real one of the broker's messages."""

    def __init__(self, connection: Connection) -> None:
        self.queue = Queue(f"requeuing-{uuid.uuid4().hex[:8]}")
        self.taken: list[object] = []
        self.pool = SimpleNamespace(uses_semaphore=True)  # that of a pool which forks
        self.connection_errors = connection.connection_errors
        self.channel_errors = connection.channel_errors
        self.task_consumer = Consumer(connection.channel(), [self.queue])
        self.part = RequeuesAtShutdown(SimpleNamespace(steps=[]))
        self.part.start(self)
        self.task_consumer.on_message = self.create_task_handler()
        self.task_consumer.consume()

    def create_task_handler(self) -> object:
        return self.take

    def take(self, message: Message) -> None:
        self.taken.append(message.payload)
        message.ack()


@pytest.fixture
def connection(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(shutdown, "_shared", None)
    shutdown.share()
    with Connection(current_app.conf.broker_url) as made:
        yield made


def send(connection: Connection, to: AConsumer, text: str) -> None:
    Producer(connection.channel()).publish(text, routing_key=to.queue.name, retry=False)


def test_what_comes_after_the_announcement_is_another_workers(connection: Connection) -> None:
    leaving, staying = AConsumer(connection), Connection(current_app.conf.broker_url)
    send(connection, leaving, "before")
    connection.drain_events(timeout=5)
    shutdown.announce()
    send(connection, leaving, "after")
    connection.drain_events(timeout=5)
    assert leaving.taken == ["before"]
    with staying:
        given = staying.SimpleQueue(leaving.queue).get(timeout=5)
        given.ack()
    assert given.payload == "after"


def test_the_answer_to_the_last_question_is_read_before_the_pool_is_waited_for(
    connection: Connection,
) -> None:
    leaving = AConsumer(connection)
    with suppress(TimeoutError):
        connection.drain_events(timeout=0.05)
    # It has asked, and the broker gives the answer to whoever has asked first.
    shutdown.announce()
    with Connection(current_app.conf.broker_url) as other:
        send(other, leaving, "between")
        leaving.part.stop(leaving)
        given = other.SimpleQueue(leaving.queue).get(timeout=5)
        given.ack()
    assert (leaving.taken, given.payload) == ([], "between")
