"""Check: a handler runs on an edited text, tells what it would do, and leaves nothing behind."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from integration.actions import check as checks
from integration.actions.check import Check, Ending
from integration.actions.errors import StateMismatchError
from integration.handlers.registry import Registration, registry
from integration.models import (
    EnterpriseService,
    MessageError,
    ObjectStructure,
    OutboxRow,
    Queue,
    StoredObject,
)
from tests.support.rows import a_held, a_queue_row
from tests.support.world.models import Child, Effect, Unique

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

TABLES = (Effect, Unique, Child, OutboxRow, StoredObject, MessageError)


@pytest.fixture
def queue() -> Queue:
    service, _ = EnterpriseService.objects.get_or_create(interface="OBEY")
    a_queue_row(name="out", direction=Queue.Direction.OUTBOUND, topic="out.topic")
    return a_queue_row("continuous", default_service=service)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test here: after it all rows that anybody could have written are gone again."""
    yield
    assert (Effect.objects.count(), Unique.objects.count(), Child.objects.count()) == (0, 0, 0)
    assert OutboxRow.objects.count() == 0


def a_failure(queue: Queue, **fields: Any) -> MessageError:
    values = {"payload": b'{"n": 1, "do": "permanent"}', "interface": "OBEY", "headers": []}
    return a_held(queue, **{**values, "arrival_batch": 5, "arrival_index": 10, **fields})


def checked(queue: Queue, text: str, **fields: Any) -> Check:
    error = a_failure(queue, **fields)
    before = MessageError.objects.values().get(pk=error.pk)
    found = checks.check(error.pk, text.encode())
    assert MessageError.objects.values().get(pk=error.pk) == before, "the failure is untouched"
    assert error.tries.count() == 1
    return found


def test_what_would_be_written_is_counted_by_table(queue: Queue) -> None:
    found = checked(queue, '{"n": 7}')
    assert found.ending is Ending.APPLIED
    [table] = found.tables
    assert (table.inserted, table.updated, table.deleted) == (1, 0, 0)
    assert table.table == Effect._meta.db_table


def test_what_would_be_sent_is_shown_and_no_outbox_row_is_left(queue: Queue) -> None:
    found = checked(queue, '{"n": 7, "do": "publish", "text": "hello"}')
    assert found.ending is Ending.APPLIED
    [sent] = found.sent
    assert (sent.topic, sent.key) == ("out.topic", b"7")
    assert b"hello" in (sent.value or b"")


@pytest.mark.parametrize(
    ("do", "code"),
    [
        ("permanent", "REFUSED"),
        ("transient", "TRANSIENT_ERROR"),
        ("missing", "MISSING_DEPENDENCY"),
        ("outage", "OUTAGE"),
        ("bug", "KEY_ERROR"),
        ("swallow", "SWALLOWED_DATABASE_ERROR"),
        ("orphan", "FOREIGN_KEY_VIOLATION"),
        ("deadlock", "DEADLOCK"),
    ],
)
def test_a_handler_that_fails_is_told_with_its_code(queue: Queue, do: str, code: str) -> None:
    found = checked(queue, f'{{"n": 7, "do": "{do}"}}')
    assert found.ending is Ending.FAILED
    assert found.failure is not None
    assert found.failure.code == code
    assert found.was_called
    assert found.tables == ()


@pytest.mark.parametrize("interface", ["OBEY", "OBEY.BATCH", "OBEY.ALONE"])
def test_every_kind_of_handler_can_be_checked(queue: Queue, interface: str) -> None:
    EnterpriseService.objects.get_or_create(interface=interface)
    text = f'{{"interfacetype": "X", "INTERFACE": "{interface}", "payload": {{"n": 3}}}}'
    assert checked(queue, text).ending is Ending.APPLIED


@pytest.mark.parametrize(
    "do", ['"statement", "seconds": 30', '"sleep", "seconds": 0.4'], ids=["database", "python"]
)
def test_one_that_takes_too_long_is_stopped_and_says_nothing_of_the_message(
    queue: Queue, do: str
) -> None:
    error = a_failure(queue)
    limit = timedelta(milliseconds=300)
    found = checks.check(error.pk, f'{{"n": 7, "do": {do}}}'.encode(), limit=limit)
    assert found.ending is Ending.TIMED_OUT
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",), "the limits went with the transaction"


def test_text_that_cannot_be_read_calls_no_handler(queue: Queue) -> None:
    found = checked(queue, '{"n": ')
    assert (found.ending, found.was_called) == (Ending.FAILED, False)
    assert found.failure is not None
    assert found.failure.code == "TRUNCATED_JSON"


def test_of_what_is_sent_only_the_partner_can_say_whether_it_takes_it(queue: Queue) -> None:
    out = Queue.objects.get(name="out")
    found = checked(out, '{"interfacetype": "X", "INTERFACE": "OBEY", "payload": {"n": 1}}')
    assert (found.ending, found.was_called) == (Ending.READABLE, False)
    assert checked(out, '{"n": ', offset=8).ending is Ending.FAILED


def test_a_handler_that_is_not_installed_here_is_said_to_be_so(queue: Queue) -> None:
    EnterpriseService.objects.create(interface="ELSEWHERE")
    text = '{"interfacetype": "X", "INTERFACE": "ELSEWHERE", "payload": {"n": 1}}'
    found = checked(queue, text)
    assert found.ending is Ending.NOT_RUN
    assert "SLUICE_INTEGRATIONS" in found.why


def test_effects_elsewhere_are_not_tried_out(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    known = {**registry._by_interface}
    foreign = Registration("FAR", called.append, False, False, True, "tests.far")
    monkeypatch.setattr(registry, "_by_interface", {**known, "FAR": foreign})
    EnterpriseService.objects.create(interface="FAR")
    found = checked(queue, '{"interfacetype": "X", "INTERFACE": "FAR", "payload": {"n": 1}}')
    assert found.ending is Ending.NOT_RUN
    assert "at_least_once" in found.why
    assert called == []


def test_what_ended_a_process_is_not_run_in_this_one(queue: Queue) -> None:
    found = checked(queue, '{"n": 7, "do": "kill"}', code="PROCESS_CRASH", failure_class="crash")
    assert found.ending is Ending.NOT_RUN


def test_only_a_held_message_can_be_checked(queue: Queue) -> None:
    error = a_failure(queue, state="RETRY", not_before=timezone.now())
    with pytest.raises(StateMismatchError):
        checks.check(error.pk, b"{}")


class TestStructure:
    @pytest.fixture
    def structure(self, queue: Queue) -> ObjectStructure:
        structure = ObjectStructure.objects.create(
            name="asset",
            key_paths=["$.assetnum"],
            json_schema={"properties": {"priority": {"type": "integer"}}},
        )
        service = EnterpriseService.objects.create(interface="ASSET", structure=structure)
        Queue.objects.filter(pk=queue.pk).update(default_service=service)
        return structure

    def stored(self, structure: ObjectStructure, batch: int) -> StoredObject:
        return StoredObject.objects.create(
            structure=structure,
            key="P-1",
            document={"assetnum": "P-1", "priority": 1},
            arrival_batch=batch,
            arrival_index=0,
            updated_at=timezone.now(),
        )

    def test_the_document_is_shown_before_and_after(
        self, queue: Queue, structure: ObjectStructure
    ) -> None:
        row = self.stored(structure, batch=4)
        text = '{"assetnum": "P-1", "priority": 2, "cost": 12345678901234567890.10}'
        found = checked(queue, text, interface="ASSET")
        assert found.ending is Ending.APPLIED
        assert found.document is not None
        assert (found.document.structure, found.document.key) == ("asset", "P-1")
        assert '"priority": 1' in found.document.before
        assert '"priority": 2' in found.document.after
        assert "12345678901234567890.10" in found.document.after
        assert [(t.inserted, t.updated) for t in found.tables] == [(0, 1)]
        row.refresh_from_db()
        assert (row.document, row.arrival_batch) == ({"assetnum": "P-1", "priority": 1}, 4)

    def test_a_new_key_has_no_document_before(
        self, queue: Queue, structure: ObjectStructure
    ) -> None:
        found = checked(queue, '{"assetnum": "P-9"}', interface="ASSET")
        assert found.document is not None
        assert (found.document.before, bool(found.document.after)) == ("", True)
        assert StoredObject.objects.filter(structure=structure).count() == 0

    def test_newer_data_makes_it_superseded(self, queue: Queue, structure: ObjectStructure) -> None:
        self.stored(structure, batch=6)
        found = checked(queue, '{"assetnum": "P-1", "priority": 2}', interface="ASSET")
        assert found.ending is Ending.SUPERSEDED
        assert found.tables == ()
        assert found.document is not None
        assert found.document.before == found.document.after

    def test_what_the_schema_refuses_would_fail(
        self, queue: Queue, structure: ObjectStructure
    ) -> None:
        found = checked(queue, '{"assetnum": "P-1", "priority": "high"}', interface="ASSET")
        assert found.failure is not None
        assert found.failure.code == "SCHEMA_VIOLATION"
        assert StoredObject.objects.filter(structure=structure).count() == 0


@pytest.mark.django_db(transaction=True)
def test_outside_any_transaction_the_whole_database_is_as_before(queue: Queue) -> None:
    """As in a request: the check's transaction is the outermost, and it is not committed."""
    error = a_failure(queue)
    before = contents()
    found = checks.check(error.pk, b'{"n": 7, "do": "publish"}')
    assert (found.ending, len(found.sent)) == (Ending.APPLIED, 1)
    assert contents() == before
    assert not connection.in_atomic_block
    timed = checks.check(
        error.pk, b'{"n": 7, "do": "statement", "seconds": 30}', limit=timedelta(seconds=0.2)
    )
    assert timed.ending is Ending.TIMED_OUT
    assert contents() == before


def contents() -> dict[str, list[Any]]:
    """Every row of the tables in question, with the transaction that wrote it."""
    found = {}
    with connection.cursor() as cursor:
        for model in TABLES:
            name = model._meta.db_table
            cursor.execute(f"SELECT xmin::text, to_jsonb(t)::text FROM {name} t ORDER BY 2")
            found[name] = cursor.fetchall()
    return found
