"""What a partner is told when the database is there and refuses, or is held up by others."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

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


def test_a_value_that_cannot_be_read_is_no_outage(partner: Partner) -> None:
    message_id = partner.post({"n": 1}).json()["message_id"]
    told("UPDATE integration_receipt SET received_at = '10000-01-01 UTC'")
    problem(partner.ask(message_id), 500, "INTERNAL_ERROR")


def test_who_is_held_up_by_others_may_send_it_again(partner: Partner) -> None:
    with held_up():
        answer = partner.post({"n": 1}, headers=OWN)
    said = problem(answer, 503, "LOCK_NOT_AVAILABLE")
    assert "nothing was stored" in said["detail"]
    assert int(answer["Retry-After"]) > 0
    again = partner.post({"n": 1}, headers=OWN)
    assert (again.status_code, again.json()["repeated"]) == (202, False)
    assert OutboxRow.objects.count() == 1
