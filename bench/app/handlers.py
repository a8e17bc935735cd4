"""The handlers of the benchmarks, written as any handler author would write them."""

import time
from collections.abc import Sequence
from typing import Any, Final

from django.db import connection

from bench import statements
from bench.app import chaos  # noqa: F401 - registers its handler
from bench.workload import row_of
from integration.handlers import (
    Message,
    PermanentError,
    Superseded,
    TransientError,
    caused_by,
    cursor,
    inbound,
    publish,
)

WAIT_SECONDS: Final = 0.005


@inbound("BenchBatch", batch=True)
def store_batch(messages: Sequence[Message]) -> None:
    """All assets of a batch in one upsert, the newest of each key."""
    newest = {message.body["assetnum"]: message for message in messages}
    with connection.cursor() as django_cursor:
        django_cursor.execute(statements.MAKE_STAGE)
        with django_cursor.copy(statements.COPY_STAGE) as stage:
            for message in newest.values():
                stage.write_row((*row_of(message.body), *message.arrival))
        django_cursor.execute(statements.UPSERT_STAGE)


@inbound("BenchAsset")
def store_one(message: Message) -> Superseded | None:
    """One upsert; fails after it when the message says so."""
    sql = cursor()
    sql.execute(statements.UPSERT_ONE, (*row_of(message.body), *message.arrival))
    changed = sql.rowcount
    fails = message.body.get("fails")
    if fails is not None:
        _fail(fails, message.attempt)
    return None if changed else Superseded()


@inbound("BenchIsolated", isolated=True)
def store_alone(message: Message) -> Superseded | None:
    """The same upsert in a transaction of its own."""
    return store_one(message)


@inbound("BenchHistory", batch=True)
def store_with_history(messages: Sequence[Message]) -> None:
    """Two statements: the upsert of a batch, and a row of history for each message by COPY."""
    store_batch(messages)
    with connection.cursor() as django_cursor, django_cursor.copy(statements.COPY_EFFECTS) as copy:
        for message in messages:
            copy.write_row((message.queue, message.body["seq"]))


@inbound("BenchPing")
def note_arrival(message: Message) -> None:
    """One row per message; publishes and fails as it says, for the accounting of `make smoke`."""
    body = message.body
    with connection.cursor() as django_cursor:
        django_cursor.execute(statements.WRITE_EFFECT, (message.queue, body["seq"], _sent_at(body)))
    if "publishes" in body:
        publish(body["publishes"], {"seq": body["seq"]}, key=str(body["seq"]))
    _fail(body.get("fails"), message.attempt)


@inbound("BenchNotes", batch=True)
def store_and_publish(messages: Sequence[Message]) -> None:
    """One row and one published message for each."""
    with connection.cursor() as django_cursor, django_cursor.copy(statements.COPY_EFFECTS) as copy:
        for message in messages:
            copy.write_row((message.queue, message.body["seq"]))
    for message in messages:
        with caused_by(message):
            publish("BENCHNOTES", {"seq": message.body["seq"]}, key=str(message.body["seq"]))


@inbound("BenchRepair")
def store_and_note(message: Message) -> Superseded | None:
    """Does both: one upsert, which shows old data, and one row, which shows a second try."""
    sql = cursor()
    sql.execute(statements.UPSERT_ONE, (*row_of(message.body), *message.arrival))
    changed = sql.rowcount
    sql.execute(statements.WRITE_EFFECT, (message.queue, message.body["seq"], None))
    _fail(message.body.get("fails"), message.attempt)
    return None if changed else Superseded()


@inbound("BenchSlow")
def sleep_while_slow(message: Message) -> None:
    """Stays in one statement as long as the benchmark says so."""
    with connection.cursor() as django_cursor:
        django_cursor.execute(statements.SLEEP_WHILE_SLOW)
        django_cursor.execute(
            statements.WRITE_EFFECT, (message.queue, message.body["seq"], _sent_at(message.body))
        )


@inbound("BenchWait")
def wait_and_note(message: Message) -> None:
    """Waits for something outside the database, as a call of another system's API does."""
    time.sleep(WAIT_SECONDS)
    note_arrival(message)


@inbound("BenchHang")
def hang_and_note(message: Message) -> None:
    """Never comes back within its time, as a call without a timeout does."""
    time.sleep(message.body.get("sleeps", 0))
    note_arrival(message)


def _sent_at(body: Any) -> float | None:
    value = body.get("sent_at")
    return None if value is None else float(value)


def _fail(fails: str | int | None, attempt: int) -> None:
    """Fail as told: "once", "always", "held" (no retry mends it), or before try number `fails`."""
    if fails == "held":
        raise PermanentError("This message is made to fail.")
    if fails == "always" or (fails == "once" and attempt == 1):
        raise TransientError("This try is made to fail.")
    if isinstance(fails, int) and attempt < fails:
        raise TransientError("This try is made to fail.")
