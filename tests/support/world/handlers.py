"""Handlers that obey the message: {"n": 1, "do": "ok" | "permanent" | "transient" | …}."""

import contextlib
import logging
import os
import signal
import time
from functools import partial
from pathlib import Path

from django.db import IntegrityError, InterfaceError, connection, connections, transaction
from opentelemetry import trace

from integration.handlers import Constant, Failure, arrived, inbound
from integration.handlers.failures import (
    BatchItemError,
    MissingDependencyError,
    OutageError,
    PermanentError,
    TransientError,
)
from integration.handlers.publishing import publish_to
from integration.handlers.user_proof import verified_user
from integration.message import Message
from integration.models import ArrivedObject
from integration.policy.dependency import object_hash
from tests.support.world.hanging import hang as hang_for_good
from tests.support.world.models import Child, Effect, Unique

log = logging.getLogger(__name__)


def write(message: Message) -> None:
    Effect.objects.create(
        message_id=message.message_id,
        interface=message.interface,
        n=message.body["n"],
        arrival_batch=message.arrival.batch,
        arrival_place=message.arrival.place,
    )


def enter(n: int) -> None:
    """Write to the other database."""
    with connections["ledger"].cursor() as cursor:
        cursor.execute("INSERT INTO entry VALUES (%s)", [n])


def swallow() -> None:
    Unique.objects.create(name="twice")
    try:
        Unique.objects.create(name="twice")
    except IntegrityError:
        return


def until(message: Message) -> None:
    """Fails at the first tries, succeeds at try number `until`."""
    if message.attempt < message.body["until"]:
        raise TransientError(f"Only try {message.body['until']} succeeds.")


def need(key: str) -> None:
    """Fails until the asset has arrived."""
    if not ArrivedObject.objects.filter(object=object_hash("asset", key)).exists():
        raise MissingDependencyError("asset", key)


def bring(key: str, *, fails: bool = False) -> None:
    """The asset arrives with this message, unless it fails afterwards."""
    arrived("asset", key)
    if fails:
        raise PermanentError("It fails after all.")


def exchange(key: str, needed: str) -> None:
    """The asset arrives with this message, if that needed one has."""
    arrived("asset", key)
    need(needed)


def bring_in_vain(key: str) -> None:
    """The asset arrives in a block that the handler rolls back itself."""
    with contextlib.suppress(ValueError), transaction.atomic():
        arrived("asset", key)
        raise ValueError


def meet(sqlstate: str) -> None:
    """Raise what PostgreSQL raises, at the place where the statement is."""
    with connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$")


def time_out() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 20; SELECT pg_sleep(1)")


def lock_in_turn(names: list[str]) -> None:
    """Lock rows one after the other; who waits in a circle is told after a tenth of a second."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL deadlock_timeout = 100")
    for name in names:
        Unique.objects.select_for_update().get(name=name)


def wait_in_statement(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [seconds])


def hang() -> None:
    """Hang for as long as the file is there that TESTS_HANG names to this one process."""
    path = os.environ.get("TESTS_HANG")
    while path and Path(path).exists():
        time.sleep(0.02)


def publish(message: Message) -> None:
    n = message.body["n"]
    publish_to("out", {"n": n, "text": message.body.get("text", "")}, key=str(n))


def publish_at(message: Message) -> None:
    """Publish at try number `until`, and fail at those before."""
    until(message)
    publish(message)


def publish_in_span(message: Message) -> None:
    with trace.get_tracer("tests").start_as_current_span("inner"):
        publish(message)


DEEDS = {
    "publish_in_span": publish_in_span,
    "publish_at": publish_at,
    "log": lambda _: log.info("heard"),
    "never": lambda m: hang_for_good(m.body["way"]),
    "lock": lambda m: lock_in_turn(m.body["names"]),
    "statement": lambda m: wait_in_statement(float(m.body["seconds"])),
    "hang": lambda _: hang(),
    "ok": lambda _: None,
    "needs": lambda m: need(m.body["object"]),
    "brings": lambda m: bring(m.body["object"]),
    "exchanges": lambda m: exchange(m.body["object"], m.body["needed"]),
    "brings_in_vain": lambda m: bring_in_vain(m.body["object"]),
    "brings_and_fails": lambda m: bring(m.body["object"], fails=True),
    "swallow": lambda _: swallow(),
    "until": until,
    "deadlock": lambda _: meet("40P01"),
    "late": lambda m: transaction.on_commit(partial(meet, m.body["sqlstate"])),
    "fail_late": lambda m: transaction.on_commit(partial(fail, m.body["failure"])),
    "timeout": lambda _: time_out(),
    "orphan": lambda _: Child.objects.create(parent_id=-1),
    "publish": publish,
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "sleep": lambda m: time.sleep(float(m.body["seconds"])),
}
FAILURES = {
    "permanent": lambda: PermanentError("Refused for good.", code="REFUSED"),
    "transient": lambda: TransientError("Try again."),
    "missing": lambda: MissingDependencyError("asset", "A1"),
    "outage": lambda: OutageError("The other side is down."),
    "bug": lambda: KeyError("siteid"),
    "no_connection": lambda: InterfaceError("connection already closed"),
}


def fail(name: str) -> None:
    failure = FAILURES[name]()
    raise failure


def obey(message: Message) -> None:
    """Write first, then do or fail: what failed must leave no trace."""
    write(message)
    if message.body.get("ledger"):
        enter(message.body.get("entry", message.body["n"]))
    do = message.body.get("do", "ok")
    if do in FAILURES:
        failure = FAILURES[do]()
        raise failure
    DEEDS[do](message)


@inbound("OBEY")
def one(message: Message) -> None:
    obey(message)


@inbound("OBEY.ALONE", isolated=True)
def alone(message: Message) -> None:
    obey(message)


def tell(message: Message, failure: Failure) -> None:
    """Write and publish that the retries of this message are spent."""
    told = {"interface": failure.code, "arrival_batch": 0, "arrival_place": 0}
    Effect.objects.create(message_id=message.message_id, n=-message.body["n"], **told)
    publish_to("out", {"n": message.body["n"]}, key=str(message.body["n"]))


# None of the roles made at installation has it.
ALLOWED_BY = "auth.add_group"


@inbound("OBEY.USER", permission=ALLOWED_BY)
def of_user(message: Message) -> None:
    assert verified_user(message).has_perm(ALLOWED_BY)
    write(message)


@inbound("OBEY.TOLD", retry=Constant(0, retries=0), on_exhausted=tell)
def told(message: Message) -> None:
    obey(message)


@inbound("OBEY.BATCH", batch=True)
def batch(messages: list[Message]) -> None:
    for index, message in enumerate(messages):
        try:
            obey(message)
        except Exception as e:
            raise BatchItemError(index) from e


@inbound("OBEY.MUTE", batch=True)
def mute(messages: list[Message]) -> None:
    """A batch handler that does not say which message failed."""
    for message in messages:
        obey(message)
