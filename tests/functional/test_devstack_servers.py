"""The three real servers come up, die by SIGKILL, and come back with what they acknowledged.

What Kafka acknowledged is looked for in tests.crash.test_kafka_outages, where one is killed anyway.
It writes alike in both kinds of set, and the durable one has the memory of a benchmark: it is not
started here.
"""

import select
import socket
from pathlib import Path

import psycopg
import pytest

from devstack.servers import Servers, as_left_in, in_folder, running

pytestmark = pytest.mark.servers


def test_a_private_set_keeps_what_it_acknowledged_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """One life of one set, of this test's own: the session's would lose others' connections.

    It trades the disk for speed, and keeps what it acknowledged all the same.
    """
    folder = tmp_path / "set"
    with running(folder, durable=False) as private:
        described = private
        assert all(server.is_answering() for server in private.each)
        data = private.postgres.data
        # The database lies where its user may go.
        assert Path(data, "PG_VERSION").exists()
        it_describes_itself_again_from_its_folder(private)
        postgres_keeps_a_committed_row_and_a_prepared_transaction_over_sigkill(private)
        valkey_keeps_an_acknowledged_key_over_sigkill(private)
        a_paused_server_keeps_its_connections_and_answers_again_when_resumed(private)

    assert not any(server.is_answering() for server in described.each)
    assert not folder.exists()
    assert not data.exists()


def test_a_durable_set_keeps_what_it_acknowledged_too(tmp_path: Path) -> None:
    described = in_folder(tmp_path / "set", durable=True)
    try:
        described.postgres.start()
        described.valkey.start()
        postgres_keeps_a_committed_row_and_a_prepared_transaction_over_sigkill(described)
        valkey_keeps_an_acknowledged_key_over_sigkill(described)
    finally:
        described.destroy()


def it_describes_itself_again_from_its_folder(servers: Servers) -> None:
    again = in_folder(servers.folder, durable=False)
    found = as_left_in(servers.folder)

    assert again.environment == found.environment == servers.environment
    assert [server.is_running() for server in found.each] == [True, True, True]


def postgres_keeps_a_committed_row_and_a_prepared_transaction_over_sigkill(
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


def valkey_keeps_an_acknowledged_key_over_sigkill(servers: Servers) -> None:
    assert ask_valkey(servers.valkey.port, "SET kept-over-kill yes") == b"+OK\r\n"

    servers.valkey.kill()
    assert not servers.valkey.is_answering()
    servers.valkey.start()

    assert ask_valkey(servers.valkey.port, "GET kept-over-kill") == b"$3\r\nyes\r\n"


def a_paused_server_keeps_its_connections_and_answers_again_when_resumed(
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


def ask_valkey(port: int, command: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"{command}\r\n".encode())
        return connection.recv(1024)


def _arrives_within(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])
