"""Running a service at once: its handler in one transaction of the request, and its result."""

import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from django.db import DatabaseError, transaction

from integration.delivery.outcome import SUPERSEDED, Failed
from integration.delivery.reading import Reader
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import Unit
from integration.handlers.failures import classify
from integration.handlers.outbound import Outbound, current
from integration.handlers.traces import what_and_where
from integration.http_api import receipts
from integration.http_api.accepting import headers_of, message_ids
from integration.http_api.bodies import Piece
from integration.http_api.errors import CallFailedError, NoSuchServiceError, SwitchedOffError
from integration.http_api.receipts import Answer, Post
from integration.message import Arrival
from integration.models import EnterpriseService, ExternalSystem
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import Ended
from integration.runs.guard import Guard
from integration.runs.single_call import bound, outcome_of
from integration.store import dependencies, outbox
from integration.store.configuration import service_of
from integration.store.sessions import (
    alias,
    django_connection,
    may_have_committed,
    next_arrival,
)
from integration.tracing.context import trace_id_of
from integration.values import Record

log = logging.getLogger(__name__)
LIMIT: Final = timedelta(seconds=20)
DONE: Final = 200
# Deadlocks and serialization failures are nobody's fault: the whole call again, so many times.
_TRIES: Final = 3
HERE: Final = "the HTTP API"
# Neither a queue nor an offset: it never passed Kafka.
NO_PLACE: Final = -1
NO_QUEUE: Final = 0
_TRACK: Final = (
    'INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, '
    "message_id, interface, ended, trace_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)


class _Undone(Exception):  # noqa: N818 - undoes a transaction, reaches nobody
    """A message failed; `place` counts from 0, `arrival` is the number that is discarded."""

    def __init__(self, place: int, failure: Failure, arrival: int) -> None:
        super().__init__(failure.code)
        self.place = place
        self.failure = failure
        self.arrival = arrival


def run_at_once(post: Post, pieces: Sequence[Piece], *, limit: timedelta = LIMIT) -> Answer:
    """Call the service's handler for each message, all in one transaction, and tell the result.

    What handlers publish is written to the outbox with it. `limit` bounds all of it together;
    no statement begins later. Raises CallFailedError, and then nothing is stored but a track of
    each try, unless it says that the commit has no answer, or what a handler had put off until
    after it failed; NoSuchServiceError and SwitchedOffError before anything is done; and
    AnotherWasFasterError.
    """
    reader = _reader(post)
    ends = time.monotonic() + limit.total_seconds()
    for number in range(1, _TRIES + 1):
        units = _units(reader, post, pieces)
        left = timedelta(seconds=max(0.001, ends - time.monotonic()))
        try:
            return _in_transaction(post, units, left)
        except _Undone as undone:
            if undone.failure.kind is not FailureClass.CONFLICT or number == _TRIES:
                raise _refusal(units, undone) from undone
    raise AssertionError("the last try returns or raises")


def _reader(post: Post) -> Reader:
    """Reads messages as a queue's run would, for this one service."""
    rows = EnterpriseService.objects.select_related("structure")
    row = rows.filter(interface=post.service).first()
    if row is None:
        raise NoSuchServiceError(service=post.service)
    service = service_of(row, HERE)
    if service.refusal is not None:
        raise SwitchedOffError(sentence=service.refusal.text)
    if not ExternalSystem.objects.filter(pk=post.system_id, enabled=True).exists():
        sentence = f"The external system {post.system} is switched off."
        raise SwitchedOffError(sentence=sentence)
    return Reader(
        QueueSnapshot(
            id=NO_QUEUE,
            name="",
            provider_id=0,
            provider_name="",
            topic="",
            sequential=False,
            system=post.system,
            services={service.interface: service},
        )
    )


def _units(reader: Reader, post: Post, pieces: Sequence[Piece]) -> list[Unit]:
    units = []
    now_ms = int(time.time() * 1000)
    ids = message_ids(post.message_id, len(pieces))
    for place, (piece, id_) in enumerate(zip(pieces, ids, strict=True)):
        headers = headers_of(post, piece, id_, "")
        record = Record(NO_PLACE, place, now_ms, post.key, piece.payload, headers)
        units.append(reader.unit(record))
    return units


def _in_transaction(post: Post, units: Sequence[Unit], limit: timedelta) -> Answer:
    outbound = Outbound()
    token = current.set(outbound)
    guard = Guard(limit)
    is_done = False
    commits: list[str] = []
    try:
        with transaction.atomic(using=alias()):
            # Before any hook of a handler's, which may fail when nothing can be undone any more.
            transaction.on_commit(partial(commits.append, post.message_id), using=alias())
            bound(limit)
            arrival = next_arrival()
            endings = _called(units, arrival, outbound, guard)
            outbox.insert(outbound.rows)
            if outbound.arrivals:
                dependencies.tell(outbound.arrivals)
            answer = Answer(DONE, _facts(post, endings))
            receipts.write_called(post, answer, count=len(units))
            _track(list(zip(units, endings, strict=True)), arrival)
            is_done = True
        return answer
    except Exception as e:
        if commits:
            log.error("what was put off until after a commit failed: %s at %s", *what_and_where(e))  # noqa: TRY400 - a trace may quote payloads
        if commits or (is_done and may_have_committed(e)):
            raise CallFailedError(classify(e), may_be_stored=True) from e
        if isinstance(e, DatabaseError):
            # The commit itself, or what the handlers had published, was refused.
            raise _Undone(0, classify(e), 0) from e
        raise
    finally:
        current.reset(token)


def _called(units: Sequence[Unit], arrival: int, outbound: Outbound, guard: Guard) -> list[Ended]:
    """Return how each message ended. Raises _Undone at the first that failed."""
    endings = []
    connection = django_connection()
    guard.enter()
    for place, unit in enumerate(units):
        if unit.message is not None:
            unit.message.topic_uuid = ""
            unit.message.arrival = Arrival(arrival, place)
        outbound.begin(unit.message)
        with connection.execute_wrapper(guard):
            outcome = unit.known or outcome_of(unit)
        guard.leave()
        failure = _failure(outcome, guard)
        if failure is not None:
            raise _Undone(place, failure, arrival)
        endings.append(Ended.SUPERSEDED if outcome == SUPERSEDED else Ended.APPLIED)
    return endings


def _failure(outcome: object, guard: Guard) -> Failure | None:
    problem = guard.problem() if not guard.is_sound else None
    if problem is not None:
        return Failure(FailureClass.PERMANENT, problem.code, str(problem))
    if guard.is_over:
        return OUT_OF_TIME
    return outcome.failure if isinstance(outcome, Failed) else None


OUT_OF_TIME: Final = Failure(
    FailureClass.TRANSIENT,
    "CALL_TIMED_OUT",
    f"It was stopped after {LIMIT.seconds} seconds, the time that a sender may wait.",
)


def _refusal(units: Sequence[Unit], undone: _Undone) -> CallFailedError:
    """Build the sender's refusal; that it was tried is all that is kept."""
    unit = units[undone.place]
    _track([(unit, Ended.REFUSED)], undone.arrival)
    where = f"Message {undone.place + 1:,} of {len(units):,}: " if len(units) > 1 else ""
    return CallFailedError(undone.failure, where)


def _track(ended: Sequence[tuple[Unit, Ended]], arrival: int) -> None:
    rows = [
        (
            *(NO_QUEUE, NO_PLACE, u.record.offset, arrival, u.message_id, u.interface, how.value),
            trace_id_of(u.record.headers),
        )
        for u, how in ended
    ]
    with django_connection().cursor() as cursor:
        cursor.executemany(_TRACK, rows)


def _facts(post: Post, endings: Sequence[Ended]) -> dict[str, object]:
    state = endings[0].value.lower() if len(set(endings)) == 1 else "mixed"
    ended = {how.value.lower(): endings.count(how) for how in sorted(set(endings))}
    return {**post.facts(len(endings), state), "ended": ended}
