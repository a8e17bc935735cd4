"""Rows as the engine leaves them, and people with a role, for tests of what people see and do."""

import base64
import json
import uuid
import zlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import count
from typing import Any

from django.contrib.auth.models import Group, User
from django.utils import timezone

from crontasks.models import Heartbeat
from integration.models import (
    ErrorAttempt,
    MessageError,
    Operation,
    OperationItem,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
)

TOPIC_UUID = "first-topic"
PASSWORD = "only-for-tests"
_numbers = count(1)


def an_address() -> str:
    """Nobody else's, so that tests do not count each other's tries to log in."""
    number = uuid.uuid4().int
    return f"fd00::{number % 2**16:x}:{(number >> 16) % 2**16:x}:{(number >> 32) % 2**16:x}"


def a_person(role: str = "", name: str = "") -> User:
    """Somebody in one of the groups made at installation, or in none."""
    person = User.objects.create_user(name or f"person-{next(_numbers)}", password=PASSWORD)
    if role:
        person.groups.add(Group.objects.get(name=role))
    return person


def a_queue_row(kind: str = "sequential", **fields: Any) -> Queue:
    provider, _ = Provider.objects.get_or_create(
        name="plant", defaults={"bootstrap_servers": "127.0.0.1:1"}
    )
    number = next(_numbers)
    values = {"name": f"queue-{number}", "topic": f"topic-{number}", "start_from": "beginning"}
    return Queue.objects.create(**{**values, "provider": provider, "kind": kind, **fields})


def a_jms_provider_row(name: str = "artemis") -> Provider:
    """A JMS broker that nobody answers for."""
    fields = {"bootstrap_servers": "127.0.0.1:1", "kind": Provider.Kind.JMS}
    provider, _ = Provider.objects.get_or_create(name=name, defaults=fields)
    return provider


def a_jms_queue_row(kind: str = "sequential", **fields: Any) -> Queue:
    """A queue that reads from it, with the place that its registration makes."""
    queue = a_queue_row(kind, **{"provider": a_jms_provider_row(), **fields})
    a_place(queue, low_watermark=None, high_watermark=None)
    return queue


def a_place(queue: Queue, **fields: Any) -> QueuePartition:
    """One partition, at offset 10 of 15."""
    values: dict[str, Any] = {
        "partition": 0,
        "topic_uuid": TOPIC_UUID,
        "next_offset": 10,
        "low_watermark": 0,
        "high_watermark": 15,
        "epoch": 3,
        "seen_at": timezone.now(),
        "state_since": timezone.now(),
    }
    return QueuePartition.objects.create(queue=queue, **{**values, **fields})


def some_live_processes(*, beats: bool = True) -> None:
    """A worker for queues, one for the relay, and beat, alive for as long as the test runs."""
    now = timezone.now()
    for node, queues in (("worker@host", "celery"), ("relay@host", "relay"), ("beat@host", "")):
        if queues or beats:
            Heartbeat.objects.create(
                kind=Heartbeat.Kind.WORKER if queues else Heartbeat.Kind.BEAT,
                node=node,
                pid=1,
                started_at=now,
                seen_at=now + timedelta(hours=1),
                leads=True,
                slots=3 if queues == "celery" else 1,
                queues=queues,
            )


def a_message_to_send(queue: Queue, state: str = "PENDING", **fields: Any) -> OutboxRow:
    """A row of the outbox for the topic of this queue."""
    values: dict[str, Any] = {
        "topic": queue.topic,
        "kind": "MESSAGE",
        "value": b"{}",
        "created_at": timezone.now(),
    }
    return OutboxRow.objects.create(provider=queue.provider, state=state, **{**values, **fields})


def a_held(queue: Queue, offset: int = 10, **fields: Any) -> MessageError:
    """A message on hold after four tries."""
    error = _held(queue, offset, fields)
    error.save(force_insert=True)
    _tried(error).save(force_insert=True)
    return error


def several_held(
    queue: Queue,
    offsets: Iterable[int],
    each: Callable[[int], dict[str, Any]] = lambda _: {},
    **fields: Any,
) -> list[MessageError]:
    """Messages on hold, stored at once; `each` answers further fields of the one at an offset."""
    held = [_held(queue, offset, {**fields, **each(offset)}) for offset in offsets]
    errors = MessageError.objects.bulk_create(held)
    ErrorAttempt.objects.bulk_create([_tried(error) for error in errors])
    return errors


def in_arrival_order(offset: int) -> dict[str, Any]:
    """The fields of messages that came in one batch, for `several_held`."""
    return {"arrival_batch": 1, "arrival_index": offset}


def _held(queue: Queue, offset: int, fields: dict[str, Any]) -> MessageError:
    now = timezone.now()
    values: dict[str, Any] = {
        "topic_uuid": TOPIC_UUID,
        "partition": 0,
        "offset": offset,
        "message_id": f"plant/EAM/{offset}",
        "interface": "MXASSETInterface",
        "payload": an_envelope({"assetnum": "P-1", "priority": "abc"}),
        "key": b"P-1",
        "headers": [["source", base64.b64encode(b"EAM").decode()]],
        "state": "HOLD",
        "failure_class": "permanent",
        "code": "BAD_VALUE",
        "text": "The priority is not a whole number.",
        "fingerprint": "0123456789abcdef",
        "attempts": 4,
        "retry_no": 3,
        "spent": 3,
        "first_failed_at": now - timedelta(minutes=5),
        "last_failed_at": now - timedelta(minutes=1),
    }
    return MessageError(queue=queue, **{**values, **fields})


def _tried(error: MessageError) -> ErrorAttempt:
    return ErrorAttempt(
        error=error, number=1, at=timezone.now(), ended="HOLD", code=error.code, text=error.text
    )


def a_blocked_queue(**fields: Any) -> tuple[Queue, QueuePartition, MessageError]:
    """A sequential queue whose first message is on hold, with four more behind it."""
    queue = a_queue_row(**fields)
    error = a_held(queue)
    place = a_place(
        queue,
        state="BLOCKED",
        state_code="HEAD_HELD",
        state_text=error.text,
        state_error=error.pk,
    )
    return queue, place, error


def left_alone(
    error: MessageError, queues: list[int], title: str, text: str = "It had moved on."
) -> None:
    """An operation over these queues that did nothing to the failure, and why."""
    operation = Operation.objects.create(
        verb="release",
        title=title,
        actor="otto-of-theirs",
        state="DONE",
        total=2,
        queues=sorted(queues),
        created_at=timezone.now(),
    )
    OperationItem.objects.create(
        operation=operation,
        place=0,
        error=error,
        version=error.version,
        outcome="MOVED_ON",
        text=text,
        at=timezone.now(),
    )


def an_envelope(document: object, *, compressed: bool = True, **fields: str) -> bytes:
    text = json.dumps(document)
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    envelope = {
        "interfacetype": "MAXIMO",
        "INTERFACE": "MXASSETInterface",
        "SENDER": "EAM",
        "payload": packed if compressed else text,
        "MEAMessageID": "m-1",
    }
    if compressed:
        envelope["compressed"] = "1"
    return json.dumps(envelope | fields).encode()
