"""The three real servers come up, die by SIGKILL, and come back with what they acknowledged."""

import select
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from devstack.servers import Servers, as_left_in, in_folder, running

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A set of this module's own: the session's would lose the connections of other tests."""
    with running(tmp_path_factory.mktemp("devstack") / "set", durable=False) as private:
        yield private


def test_postgres_keeps_a_committed_row_and_a_prepared_transaction_over_sigkill(
    servers: Servers,
) -> None:
    with psycopg.connect(servers.database_url, autocommit=True) as session:
        session.execute("CREATE TABLE kept_over_kill (id int)")
        session.execute("INSERT INTO kept_over_kill VALUES (7)")
        session.execute("BEGIN")
        session.execute("INSERT INTO kept_over_kill VALUES (8)")
        session.execute("PREPARE TRANSACTION 'kept'")

    servers.postgres.kill()
    assert not servers.postgres.is_answering()
    servers.postgres.start()

    with psycopg.connect(servers.database_url, autocommit=True) as session:
        session.execute("COMMIT PREPARED 'kept'")
        rows = session.execute("SELECT id FROM kept_over_kill ORDER BY id").fetchall()
        session.execute("DROP TABLE kept_over_kill")
    assert rows == [(7,), (8,)]


def test_kafka_keeps_an_acknowledged_record_over_sigkill(servers: Servers) -> None:
    place = {"bootstrap.servers": servers.kafka_bootstrap}
    admin = AdminClient(place)
    admin.create_topics([NewTopic("kept-over-kill", 1)])["kept-over-kill"].result(10)
    producer = Producer({**place, "acks": "all"})
    producer.produce("kept-over-kill", b"still here")
    assert producer.flush(10) == 0

    servers.kafka.kill()
    assert not servers.kafka.is_answering()
    servers.kafka.start()

    consumer = Consumer({**place, "group.id": "nobody", "enable.auto.commit": False})
    consumer.assign([TopicPartition("kept-over-kill", 0, 0)])
    record = consumer.poll(20)
    consumer.close()
    assert record is not None
    assert record.value() == b"still here"


def test_valkey_keeps_an_acknowledged_key_over_sigkill(servers: Servers) -> None:
    assert ask_valkey(servers.valkey.port, "SET kept-over-kill yes") == b"+OK\r\n"

    servers.valkey.kill()
    assert not servers.valkey.is_answering()
    servers.valkey.start()

    assert ask_valkey(servers.valkey.port, "GET kept-over-kill") == b"$3\r\nyes\r\n"


def test_a_paused_server_keeps_its_connections_and_answers_again_when_resumed(
    servers: Servers,
) -> None:
    with psycopg.connect(servers.database_url, autocommit=True) as session:
        servers.postgres.pause()
        try:
            assert servers.postgres.is_running()
            session.pgconn.send_query(b"SELECT 1")
            # Nothing can come: every process of the server is stopped.
            assert not _arrives_within(session.pgconn.socket, 0.3)
        finally:
            servers.postgres.resume()
        assert _arrives_within(session.pgconn.socket, 10)
        while session.pgconn.get_result() is not None:
            session.pgconn.consume_input()


def test_a_set_describes_itself_again_from_its_folder(servers: Servers) -> None:
    again = in_folder(servers.folder, durable=False)
    found = as_left_in(servers.folder)

    assert again.environment == found.environment == servers.environment
    assert [server.is_running() for server in found.each] == [True, True, True]


def test_the_database_lies_where_its_user_may_go(servers: Servers) -> None:
    assert Path(servers.postgres.data, "PG_VERSION").exists()


def test_a_private_set_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    with running(folder, durable=True) as private:
        described = private
        assert all(server.is_answering() for server in private.each)
        data = private.postgres.data
        assert data.exists()

    assert not any(server.is_answering() for server in described.each)
    assert not folder.exists()
    assert not data.exists()


def ask_valkey(port: int, command: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"{command}\r\n".encode())
        return connection.recv(1024)


def _arrives_within(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])
