"""What people decide about rows of the outbox: once, seen, with a line of history that stays."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from integration.actions import outbox
from integration.actions.errors import ReasonMissingError, RowBusyError
from integration.actions.outbox import NotInDoubtError, OutboxMismatchError, OutboxOutcome
from integration.models import OutboxChange, OutboxRow, Provider, RelayLease
from tests.functional.relay_world import a_dead_row, a_provider, a_relay_in_doubt, states

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def provider() -> Provider:
    return a_provider()


def test_a_row_sent_again_forgets_why_it_was_dead_and_the_history_keeps_it(
    provider: Provider,
) -> None:
    row = a_dead_row(provider)
    outbox.send_again(row.pk, batch=row.batch, actor="anna", reason="the limit was raised")
    now = OutboxRow.objects.get(pk=row.pk)
    assert (now.state, now.batch, now.dead_code, now.dead_text) == ("PENDING", None, "", "")
    change = OutboxChange.objects.get()
    assert (change.actor, change.action, change.row) == ("anna", "send again", row.pk)
    assert (change.from_state, change.to_state) == ("DEAD", "PENDING")
    assert (change.batch, change.reason) == (row.batch, "the limit was raised")
    assert row.dead_text in change.why_before


def test_giving_up_needs_a_reason_and_keeps_what_was_refused(provider: Provider) -> None:
    row = a_dead_row(provider)
    with pytest.raises(ReasonMissingError):
        outbox.give_up(row.pk, batch=row.batch, actor="anna", reason="  ")
    assert states(row.pk) == ["DEAD"]
    assert not OutboxChange.objects.exists()
    outbox.give_up(row.pk, batch=row.batch, actor="anna", reason="sent by mail")
    now = OutboxRow.objects.get(pk=row.pk)
    assert (now.state, now.dead_code) == ("CANCELLED", "MSG_SIZE_TOO_LARGE")
    assert OutboxChange.objects.get().reason == "sent by mail"


def test_of_two_who_decide_one_is_told_and_a_second_click_is_no_problem(
    provider: Provider,
) -> None:
    row = a_dead_row(provider)
    outbox.give_up(row.pk, batch=row.batch, actor="anna", reason="old")
    with pytest.raises(OutboxMismatchError, match="anna") as told:
        outbox.send_again(row.pk, batch=row.batch, actor="bert")
    assert (told.value.code, told.value.already_done) == ("OUTBOX_MISMATCH", False)
    with pytest.raises(OutboxMismatchError) as again:
        outbox.give_up(row.pk, batch=row.batch, actor="anna", reason="old")
    assert again.value.already_done
    assert OutboxChange.objects.count() == 1


def test_a_row_that_was_refused_again_is_not_what_the_person_saw(provider: Provider) -> None:
    row = a_dead_row(provider)
    seen = row.batch
    OutboxRow.objects.update(batch=uuid.uuid4(), dead_code="TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(OutboxMismatchError):
        outbox.give_up(row.pk, batch=seen, actor="anna", reason="too large anyway")
    assert states(row.pk) == ["DEAD"]


@pytest.mark.parametrize("state", ["PENDING", "STAMPED", "PUBLISHED", "CANCELLED"])
def test_only_a_dead_row_can_be_decided_on(provider: Provider, state: str) -> None:
    row = a_dead_row(provider, state=state)
    for verb in (outbox.send_again, outbox.give_up):
        with pytest.raises(OutboxMismatchError, match=str(row.pk)):
            verb(row.pk, batch=row.batch, actor="anna", reason="why not")
    assert states(row.pk) == [state]


def test_a_row_that_cleanup_removed_is_told(provider: Provider) -> None:
    with pytest.raises(OutboxMismatchError, match="12345"):
        outbox.send_again(12345, batch=None, actor="anna")


def test_many_rows_are_moved_counted_and_noted_one_by_one(provider: Provider) -> None:
    rows = [a_dead_row(provider) for _ in range(outbox.CHUNK_ROWS + 2)]
    asked = {row.pk: row.batch for row in rows}
    OutboxRow.objects.filter(pk=rows[0].pk).update(state="CANCELLED")
    asked[rows[1].pk] = uuid.uuid4()
    outcome = outbox.send_again_many(asked, actor="anna")
    assert outcome == OutboxOutcome(moved=len(rows) - 2, moved_on=2)
    assert states(rows[0].pk, rows[1].pk) == ["CANCELLED", "DEAD"]
    assert OutboxChange.objects.count() == len(rows) - 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [0, 1])
def test_a_row_in_somebodys_hands_stops_it_and_what_was_moved_is_told(
    monkeypatch: pytest.MonkeyPatch, locked: int
) -> None:
    monkeypatch.setattr("integration.actions.transaction.PATIENCE_MS", 100)
    monkeypatch.setattr(outbox, "CHUNK_ROWS", 1)
    provider = a_provider()
    rows = [a_dead_row(provider) for _ in range(3)]
    asked = {row.pk: row.batch for row in rows}

    def give_up() -> OutboxOutcome | None:
        try:
            return outbox.give_up_many(asked, actor="anna", reason="old")
        except RowBusyError:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other, transaction.atomic():
        OutboxRow.objects.select_for_update().get(pk=rows[locked].pk)
        outcome = other.submit(give_up).result(20)

    assert outcome == (OutboxOutcome(moved=1, moved_on=2) if locked else None)
    left = states(*(row.pk for row in rows))
    assert left == ["CANCELLED" if place < locked else "DEAD" for place in range(3)]


@pytest.mark.django_db(transaction=True)
def test_where_the_database_gives_up_what_was_moved_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "CHUNK_ROWS", 1)
    provider = a_provider()
    rows = [a_dead_row(provider) for _ in range(3)]
    asked = {row.pk: row.batch for row in rows}
    trigger = (
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE SQLSTATE '40001'; END $$; CREATE TRIGGER fails BEFORE UPDATE ON "
        f"integration_outboxrow FOR EACH ROW WHEN (OLD.id = {rows[1].pk}) EXECUTE FUNCTION fails()"
    )
    try:
        with connection.cursor() as cursor:
            cursor.execute(trigger)
        outcome = outbox.give_up_many(asked, actor="anna", reason="old")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION IF EXISTS fails CASCADE")
    assert outcome == OutboxOutcome(moved=1, moved_on=2)
    assert states(*(row.pk for row in rows)) == ["CANCELLED", "DEAD", "DEAD"]


@pytest.mark.parametrize(("sent", "state"), [(True, "PUBLISHED"), (False, "PENDING")])
def test_a_word_on_a_batch_in_doubt_moves_all_of_it_and_is_noted(
    provider: Provider, *, sent: bool, state: str
) -> None:
    lease, batch = a_relay_in_doubt(provider, rows=3)
    done = outbox.resolve_in_doubt(lease.pk, batch=batch, sent=sent, actor="anna", reason="looked")
    assert done == 3
    assert set(states()) == {state}
    now = RelayLease.objects.get()
    assert (now.in_doubt_since, now.in_doubt_text, now.epoch) == (None, "", 5)
    change = OutboxChange.objects.get()
    assert (change.count, change.batch, change.row) == (3, batch, None)
    assert (change.from_state, change.to_state) == ("STAMPED", state)
    assert "3 messages" in change.why_before


def test_a_word_on_another_batch_than_the_one_in_doubt_changes_nothing(
    provider: Provider,
) -> None:
    lease, _ = a_relay_in_doubt(provider)
    with pytest.raises(NotInDoubtError):
        outbox.resolve_in_doubt(lease.pk, batch=uuid.uuid4(), sent=True, actor="anna")
    assert set(states()) == {"STAMPED"}
    assert not OutboxChange.objects.exists()


def test_a_relay_that_is_not_in_doubt_keeps_its_batch(provider: Provider) -> None:
    lease, batch = a_relay_in_doubt(provider)
    RelayLease.objects.update(in_doubt_since=None)
    with pytest.raises(NotInDoubtError):
        outbox.resolve_in_doubt(lease.pk, batch=batch, sent=False, actor="anna")
    assert set(states()) == {"STAMPED"}
