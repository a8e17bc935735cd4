"""Another database: rows once by message id, and what is missing there is told with its SQL."""

import json
import random
import socket
import threading
from decimal import Decimal
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Refused, Unknown, Unreachable
from integration.endpoints.properties import mistakes
from tests.contract.endpoint_worlds import DatabaseWorld, an_endpoint, an_outbound_message
from tests.support.lossy_proxy import Break, LossyProxy

pytestmark = pytest.mark.servers
REFUSING = """
CREATE FUNCTION target.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.lines > 5 THEN RAISE EXCEPTION 'too many' USING ERRCODE = 'ERP01'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON target.orders FOR EACH ROW EXECUTE FUNCTION target.refuse()
"""


@pytest.fixture
def world(postgres, tmp_path):
    made = DatabaseWorld(tmp_path)
    yield made
    made.close()


def an_opened(world, **properties):
    known = {
        **world.parts(),
        "database": "postgres",
        "schema": "target",
        "table": "orders",
        "columns": {"number": "{$.order.number}", "lines": "{$.order.lines}"},
        "connect_seconds": 2,
    }
    return opened(an_endpoint("database", known | properties))


def an_order(message_id, number, lines):
    body = f'{{"order": {{"number": "{number}", "lines": {lines}}}}}'.encode()
    return an_outbound_message(message_id, body=body)


def rows(world):
    return world.admin.execute("SELECT * FROM target.orders ORDER BY 1").fetchall()


def test_a_late_repeat_does_not_bring_an_older_row_back(world):
    endpoint = an_opened(world, mode="upsert", key_columns=["number"])
    for message_id, lines in (("m1", 1), ("m2", 2), ("m1", 1)):
        assert isinstance(endpoint.deliver([an_order(message_id, "A", lines)])[0], Accepted)
    assert rows(world) == [("A", 2)]
    endpoint.close()


def test_a_unique_column_may_drop_repeats_instead(world):
    world.admin.execute("DROP TABLE target.sluice_delivered")
    world.admin.execute("ALTER TABLE target.orders ADD id text UNIQUE")
    endpoint = an_opened(world, message_id_column="id")
    for _ in range(2):
        assert isinstance(endpoint.deliver([an_order("m1", "A", 1)])[0], Accepted)
    assert rows(world) == [("A", 1, "m1")]
    (answer,) = endpoint.deliver([an_order("m2", "A", 1)])
    assert (type(answer), answer.code) == (Refused, "DATABASE_REFUSED")
    endpoint.close()


def test_tables_with_ledgers_of_their_own_each_get_a_message_that_goes_to_both(world):
    world.admin.execute("CREATE TABLE target.lines (LIKE target.orders)")
    missing = an_opened(world, table="lines", ledger="Lines_Delivered").connect().text
    assert "no table Lines_Delivered" in missing
    world.admin.execute(missing.partition("Make it: ")[2])
    both = [an_opened(world), an_opened(world, table="lines", ledger="Lines_Delivered")]
    for endpoint in [*both, *both]:
        assert isinstance(endpoint.deliver([an_order("m1", "A", 1)])[0], Accepted)
    assert world.admin.execute("SELECT * FROM target.lines").fetchall() == rows(world)
    assert rows(world) == [("A", 1)]
    for endpoint in both:
        endpoint.close()


def test_values_come_as_the_columns_want_them(world):
    world.admin.execute(
        "CREATE TABLE target.wide (t text, n numeric, b boolean, j jsonb, d date, i int, p jsonb)"
    )
    columns = {
        "t": "{interface}/{$.n}",
        "n": "{$.n}",
        "b": "{$.b}",
        "j": "{$.j}",
        "d": "{$.d}",
        "i": "{$.none}",
        "p": "{payload}",
    }
    body = b'{"n": 1.50, "b": true, "j": {"a": [1.10]}, "d": "2026-03-01"}'
    endpoint = an_opened(world, table="wide", columns=columns)
    assert isinstance(endpoint.deliver([an_outbound_message("m1", body=body)])[0], Accepted)
    found = world.admin.execute("SELECT t, n, b, j, d::text, i FROM target.wide").fetchone()
    assert found == ("ORDERS/1.50", Decimal("1.50"), True, {"a": [1.1]}, "2026-03-01", None)
    endpoint.close()


def test_our_own_database_is_no_target_by_any_name(world):
    name, parts = settings.DATABASES["default"]["NAME"], world.parts()
    address = f"postgresql://{parts['username']}@127.0.0.1:{parts['port']}/{name}"
    with LossyProxy(address, Break.AFTER, 99) as proxy:
        for port in (parts["port"], urlsplit(proxy.url).port):
            endpoint = an_opened(world, database=name, port=port, sslmode="disable")
            assert endpoint.connect().code == "DATABASE_OWN"
            (answer,) = endpoint.deliver([an_order("m1", "A", 1)])
            assert (type(answer), answer.code) == (Unreachable, "DATABASE_OWN")
            endpoint.close()


def test_a_private_address_needs_permission(world):
    endpoint = an_opened(world, private_network=False)
    assert endpoint.connect().code == "ADDRESS_REFUSED"
    (answer,) = endpoint.deliver([an_order("m1", "A", 1)])
    assert (type(answer), answer.code) == (Unreachable, "ADDRESS_REFUSED")
    endpoint.close()


@pytest.mark.parametrize(
    ("statement", "properties", "code", "told"),
    [
        ("DROP TABLE target.orders", {}, "DATABASE_TABLE_MISSING", "no such table"),
        (
            "DROP TABLE target.sluice_delivered",
            {},
            "DATABASE_TABLE_MISSING",
            "message_id text PRIMARY KEY",
        ),
        ("ALTER TABLE target.orders DROP lines", {}, "DATABASE_COLUMN_MISSING", "lines"),
        (
            "SELECT 1",
            {"mode": "upsert", "key_columns": ["lines"]},
            "DATABASE_NO_KEY",
            "CREATE UNIQUE INDEX",
        ),
        ("SELECT 1", {"schema": "elsewhere"}, "DATABASE_TABLE_MISSING", "elsewhere"),
        ("SELECT 1", {"database": "nowhere"}, "DATABASE_UNREACHABLE", "nowhere"),
        ("SELECT 1", {"port": 1}, "DATABASE_UNREACHABLE", ""),
        ("SELECT 1", {"host": "nobody.invalid"}, "NAME_NOT_FOUND", "nobody.invalid"),
        ("SELECT 1", {"host": "169.254.169.254"}, "ADDRESS_REFUSED", "never connected"),
    ],
)
def test_what_is_missing_there_is_an_outage_and_told(world, statement, properties, code, told):
    world.admin.execute(statement)
    endpoint = an_opened(world, **properties)
    for answer in (endpoint.connect(), endpoint.deliver([an_order("m1", "A", 1)])[0]):
        assert (type(answer), answer.code) == (Unreachable, code)
        assert told in answer.text
    endpoint.close()


@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        # A number column gets true: the value's own type decides, and only this message has it.
        ("SELECT 1", "true"),
        # More than a page of an index holds.
        ("ALTER TABLE target.orders ALTER lines TYPE text; CREATE INDEX ON target.orders (lines)",
         json.dumps(random.Random(1).randbytes(9_000).hex())),
        # What a trigger of the target raises, under a state of its own.
        (REFUSING, "7"),
    ],
)  # fmt: skip
def test_what_one_message_brings_along_never_stops_the_others(world, statement, lines):
    world.admin.execute(statement)
    endpoint = an_opened(world, at_once=2)
    bad, good = endpoint.deliver([an_order("m1", "A", lines), an_order("m2", "B", 2)])
    assert (type(bad), bad.code) == (Refused, "DATABASE_REFUSED")
    assert isinstance(good, Accepted)
    assert [str(number) for number, *_ in rows(world)] == ["B"]
    endpoint.close()


def test_a_right_that_is_missing_is_told_with_its_grant(world):
    world.admin.execute("DROP ROLE IF EXISTS poor_partner")
    world.admin.execute("CREATE ROLE poor_partner LOGIN")
    world.admin.execute("GRANT USAGE ON SCHEMA target TO poor_partner")
    endpoint = an_opened(world, username="poor_partner")
    (answer,) = endpoint.deliver([an_order("m1", "A", 1)])
    assert answer.code in {"DATABASE_RIGHT_MISSING", "DATABASE_UNREACHABLE"}
    endpoint.close()
    world.admin.execute("REVOKE ALL ON SCHEMA target FROM poor_partner")
    world.admin.execute("DROP ROLE poor_partner")


def test_a_deferred_constraint_refuses_its_own_message_only(world):
    world.admin.execute("CREATE TABLE target.known (number text PRIMARY KEY)")
    world.admin.execute("INSERT INTO target.known VALUES ('A'), ('C')")
    world.admin.execute(
        "ALTER TABLE target.orders ADD FOREIGN KEY (number) REFERENCES target.known "
        "DEFERRABLE INITIALLY DEFERRED"
    )
    endpoint = an_opened(world, at_once=3)
    answers = endpoint.deliver([an_order(f"m{n}", n, 1) for n in "ABC"])
    assert [type(one) for one in answers] == [Accepted, Refused, Accepted]
    assert rows(world) == [("A", 1), ("C", 1)]
    endpoint.close()


def test_a_connection_that_died_while_idle_is_replaced(world):
    endpoint = an_opened(world)
    endpoint.deliver([an_order("m1", "A", 1)])
    world.admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice' "
        "AND datname = 'postgres' AND pid <> pg_backend_pid()"
    )
    assert isinstance(endpoint.deliver([an_order("m2", "B", 1)])[0], Accepted)
    endpoint.close()


def test_names_are_never_part_of_the_statement():
    found = mistakes(
        "database",
        {
            "host": "h",
            "database": "d",
            "username": "u",
            "table": 'orders"; DROP TABLE x; --',
            "columns": {"a b": "{key}"},
            "ledger": "known; --",
        },
    )
    assert set(found) == {"table", "columns", "ledger"}


def test_upserts_need_their_keys_among_the_columns():
    known = {"host": "h", "database": "d", "username": "u", "table": "t", "columns": {"a": "{key}"}}
    assert not mistakes("database", known)
    assert "key_columns" in mistakes("database", {**known, "mode": "upsert"})
    assert "key_columns" in mistakes("database", {**known, "mode": "upsert", "key_columns": ["b"]})
    assert "ledger" in mistakes("database", {**known, "ledger": "t"})


class Vanishing(LossyProxy):
    """Nobody gets through any more once a commit was broken."""

    def _is_the_one(self):
        found = super()._is_the_one()
        if found:
            self._listener.close()
        return found


@pytest.mark.parametrize(
    ("wire", "when", "ending", "code", "count"),
    [
        (LossyProxy, Break.AFTER, Accepted, "", 1),
        (LossyProxy, Break.BEFORE, Unreachable, "DATABASE_UNREACHABLE", 0),
        (Vanishing, Break.AFTER, Unknown, "COMMIT_UNKNOWN", 1),
        (Vanishing, Break.BEFORE, Unknown, "COMMIT_UNKNOWN", 0),
    ],
)
def test_a_commit_whose_answer_is_lost_is_looked_up(world, wire, when, ending, code, count):
    parts = world.parts()
    address = f"postgresql://{parts['username']}@127.0.0.1:{parts['port']}/postgres"
    with wire(address, when, 1) as proxy:
        properties = {"host": "127.0.0.1", "port": urlsplit(proxy.url).port, "sslmode": "disable"}
        endpoint = an_opened(world, **properties)
        (answer,) = endpoint.deliver([an_order("m1", "A", 1)])
        assert (type(answer), answer.code) == (ending, code), answer
        assert proxy.broken.is_set()
        endpoint.close()
    assert len(rows(world)) == count
    # Whatever it was: once more is harmless.
    again = an_opened(world)
    assert isinstance(again.deliver([an_order("m1", "A", 1)])[0], Accepted)
    assert rows(world) == [("A", 1)]
    again.close()


def test_our_own_password_is_given_to_nobody_who_asks_for_one(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    got = bytearray()

    def ask(server):
        taken, _ = server.accept()
        with taken:
            taken.recv(4_096)
            # AuthenticationCleartextPassword, as a server of a partner may ask for.
            taken.sendall(b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big"))
            got.extend(taken.recv(4_096))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=ask, args=(server,), daemon=True)
        thread.start()
        properties = {
            "host": "127.0.0.1",
            "port": server.getsockname()[1],
            "database": "erp",
            "username": "sluice",
            "private_network": True,
            "sslmode": "disable",
            "table": "orders",
            "columns": {"number": "{key}"},
        }
        endpoint = opened(an_endpoint("database", properties))
        answer = endpoint.connect()
        endpoint.close()
        thread.join(10)
    assert (type(answer), answer.code) == (Unreachable, "DATABASE_UNREACHABLE")
    assert b"hunter2" not in bytes(got)
