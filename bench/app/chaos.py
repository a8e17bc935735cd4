"""The handler of the chaos run: writes one row for each message, and fails as the message says."""

import os
import signal
from typing import Any

from django.db import connection

from bench.chaos import tables
from integration.handlers import (
    Message,
    MissingDependencyError,
    PermanentError,
    TransientError,
    arrived,
    inbound,
    publish,
)


@inbound("ChaosNote")
def note(message: Message) -> None:
    """Do all that may have to be undone first, and fail after it."""
    body = message.body
    row = (message.queue, body["seq"], message.attempt, os.getpid())
    with connection.cursor() as sql:
        sql.execute(tables.WRITE_EFFECT, row)
        _bring(sql, body)
        if "publishes" in body:
            reply = {"queue": message.queue, "seq": body["seq"]}
            publish(body["publishes"], reply, key=body["key"])
        _need(sql, body)
        _fail(sql, body, message.attempt)


def _bring(sql: Any, body: Any) -> None:
    if "brings" in body:
        sql.execute(tables.STORE_OBJECT, (body["brings"],))
        arrived(tables.KIND, body["brings"])


def _need(sql: Any, body: Any) -> None:
    if "needs" in body:
        sql.execute(tables.IS_THERE, (body["needs"],))
        if sql.fetchone() is None:
            raise MissingDependencyError(tables.KIND, body["needs"])


def _fail(sql: Any, body: Any, attempt: int) -> None:
    """Fail for good until a person has edited it (`fails`), or before a number of tries."""
    match body.get("fails"):
        case "permanent":
            raise PermanentError("This message is made to fail.")
        case "always":
            raise TransientError("Each try of this message is made to fail.")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            pass
    if attempt < body.get("succeeds_at", 1):
        raise TransientError("This try is made to fail.")
    if attempt < body.get("clashes_until", 1):
        sql.execute(tables.CLASH)
