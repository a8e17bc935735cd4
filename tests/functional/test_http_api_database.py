"""What a partner is told when the database is there and refuses, or is held up by others."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from integration.http_api.errors import MAY_BE_STORED
from integration.models import OutboxRow, Receipt
from integration.store.sessions import raw_connection
from tests.support.http_api import Partner, a_partner, problem

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
SECRET = "p4yload"
OWN = {"Idempotency-Key": "k"}
WHERE = "console.http_api.entrance"


@pytest.fixture
def partner() -> Partner:
    return a_partner()


def told(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@contextmanager
def refusing(partner: Partner) -> Iterator[None]:
    """The database takes no message for the partner's queue."""
    assert partner.queue is not None
    told(
        "ALTER TABLE integration_outboxrow "
        f"ADD CONSTRAINT refused CHECK (topic <> '{partner.queue.topic}') NOT VALID"
    )
    try:
        yield
    finally:
        told("ALTER TABLE integration_outboxrow DROP CONSTRAINT refused")


@contextmanager
def held_up() -> Iterator[None]:
    """Somebody else works on the outbox for longer than a statement of ours may wait."""
    with raw_connection("the other one") as other, other.transaction():
        other.execute("LOCK TABLE integration_outboxrow IN EXCLUSIVE MODE")
        told("SET lock_timeout = '200ms'")
        try:
            yield
        finally:
            told("RESET lock_timeout")


@pytest.mark.parametrize("body", [{"n": SECRET}, [{"n": SECRET}, {"n": 2}]], ids=["one", "several"])
def test_a_row_that_is_refused_is_no_outage_and_nothing_is_stored(
    partner: Partner, caplog: pytest.LogCaptureFixture, body: object
) -> None:
    with refusing(partner):
        answer = partner.post(body, headers=OWN)
    said = problem(answer, 500, "INTERNAL_ERROR")
    assert "nothing was stored" in said["detail"]
    assert "Retry-After" not in answer
    assert not OutboxRow.objects.exists()
    assert not Receipt.objects.exists()
    [line] = [one for one in caplog.records if one.name == WHERE]
    assert line.levelname == "ERROR"
    assert "IntegrityError" in line.getMessage()
    assert SECRET not in caplog.text + answer.text, "the database quotes the row"
    again = partner.post(body, headers=OWN)
    assert (again.status_code, again.json()["repeated"]) == (202, False)


@contextmanager
def failing(sqlstate: str) -> Iterator[None]:
    """The database answers every message for the outbox with this error."""
    told(
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION 'it fails' USING ERRCODE = '{sqlstate}'; END $$"
    )
    told(
        "CREATE TRIGGER fails BEFORE INSERT ON integration_outboxrow "
        "FOR EACH ROW EXECUTE FUNCTION fails()"
    )
    try:
        yield
    finally:
        told("DROP TRIGGER fails ON integration_outboxrow")
        told("DROP FUNCTION fails")


@pytest.mark.parametrize(
    ("sqlstate", "code", "level"),
    [
        ("53200", "DATABASE_DOWN", "WARNING"),  # out of memory
        ("53400", "DATABASE_DOWN", "WARNING"),  # a limit of the configuration
        ("58030", "DATABASE_DOWN", "WARNING"),  # an error of input or output
        ("25P03", "DATABASE_DOWN", "WARNING"),  # a session that was idle in its transaction
        ("25P04", "DATABASE_DOWN", "WARNING"),  # a transaction that took too long
        ("40001", "SERIALIZATION_FAILURE", "WARNING"),
        ("40P01", "DEADLOCK", "WARNING"),
        ("57014", "STATEMENT_TIMEOUT", "WARNING"),
        # As when a queue is deleted after its look-up; or so it is every time.
        ("23503", "FOREIGN_KEY_VIOLATION", "ERROR"),
        ("23505", "UNIQUE_VIOLATION", "ERROR"),
    ],
)
def test_what_passes_is_told_to_be_sent_again(
    partner: Partner, caplog: pytest.LogCaptureFixture, sqlstate: str, code: str, level: str
) -> None:
    with failing(sqlstate):
        answer = partner.post({"n": 1}, headers=OWN)
    said = problem(answer, 503, code)
    assert [one.levelname for one in caplog.records if one.name == WHERE] == [level]
    assert "nothing was stored" in said["detail"]
    assert int(answer["Retry-After"]) > 0
    assert not Receipt.objects.exists()
    again = partner.post({"n": 1}, headers=OWN)
    assert (again.status_code, again.json()["repeated"]) == (202, False)


def test_a_value_that_cannot_be_read_is_no_outage(partner: Partner) -> None:
    message_id = partner.post({"n": 1}).json()["message_id"]
    told("UPDATE integration_receipt SET received_at = '10000-01-01 UTC'")
    problem(partner.ask(message_id), 500, "INTERNAL_ERROR")


def test_after_a_mistake_of_ours_a_post_may_be_stored(partner: Partner) -> None:
    partner.post({"n": 1}, headers=OWN)
    told("UPDATE integration_receipt SET answer = '[]'")
    answer = partner.post({"n": 1}, headers=OWN)
    said = problem(answer, 500, "INTERNAL_ERROR")
    assert MAY_BE_STORED in said["detail"]
    assert "Idempotency-Key" in said["next_step"]


def test_who_is_held_up_by_others_may_send_it_again(partner: Partner) -> None:
    with held_up():
        answer = partner.post({"n": 1}, headers=OWN)
    said = problem(answer, 503, "LOCK_NOT_AVAILABLE")
    assert "nothing was stored" in said["detail"]
    assert int(answer["Retry-After"]) > 0
    again = partner.post({"n": 1}, headers=OWN)
    assert (again.status_code, again.json()["repeated"]) == (202, False)
    assert OutboxRow.objects.count() == 1
