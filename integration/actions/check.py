"""The trial of a held message as if it were released now: its handler runs, then all is undone."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db import DatabaseError, transaction

from integration.actions.errors import StateMismatchError
from integration.delivery.outcome import SUPERSEDED, Failed, Outcome
from integration.delivery.reading import Reader
from integration.delivery.unit import OpenError, Unit
from integration.documents.structures import Entry, plan_for
from integration.handlers.failures import classify
from integration.handlers.outbound import Outbound, current
from integration.message import Arrival
from integration.models import EnterpriseService, MessageError, ObjectStructure, Queue
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import ErrorState
from integration.registries.schemas import schemas_for
from integration.runs.guard import LIMIT, Guard, NotUndoneError
from integration.runs.single_call import bound, outcome_of
from integration.store import configuration
from integration.store.rows import COLUMNS, open_error
from integration.store.sessions import alias, django_connection, fetch_all, next_arrival
from integration.store.written import TableChange, counts, written_since
from integration.values import Outgoing, Record

CONSOLE: Final = "the console"
READ_ROW: Final = f"SELECT {COLUMNS} FROM integration_messageerror e WHERE e.id = %s"
READ_DOCUMENT: Final = (
    "SELECT coalesce(document::text, xml) FROM integration_storedobject "
    "WHERE structure_id = %s AND key = %s"
)


class Ending(StrEnum):
    """The ending of a check. TIMED_OUT and NOT_RUN say nothing about the message.

    READABLE: it can be sent; only its partner can tell whether it takes it.
    REFUSED: the handler tried to end its transaction; KEPT: it did, and not all is undone.
    """

    APPLIED = "APPLIED"
    SUPERSEDED = "SUPERSEDED"
    FAILED = "FAILED"
    REFUSED = "REFUSED"
    KEPT = "KEPT"
    TIMED_OUT = "TIMED_OUT"
    NOT_RUN = "NOT_RUN"
    READABLE = "READABLE"


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A stored document before and after, as JSON or XML text; empty where there is none."""

    structure: str
    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of a check. `why` is a sentence where there is no failure that says it.

    `was_called` is whether the handler ran at all. `tables` counts rows written, `sent` are the
    messages for the outbox; both are empty unless the message would be applied or is superseded.
    Nothing of it exists any more, unless the ending is KEPT.
    """

    ending: Ending
    interface: str
    was_called: bool = True
    why: str = ""
    failure: Failure | None = None
    tables: tuple[TableChange, ...] = ()
    document: DocumentChange | None = None
    sent: tuple[Outgoing, ...] = ()


def check(error_id: UUID, record: bytes | None, *, limit: timedelta = LIMIT) -> Check:
    """Run the handler of a held message on `record`, as the engine would, and undo everything.

    In one transaction of the engine's database with `limit` for all of its statements; deferred
    constraints are checked. It is always rolled back; only sequences may have advanced. A command
    that would end the transaction is not sent; one past Django is noticed afterwards. What a
    handler does outside that database is not undone, so one that declares to do that is not run,
    and neither is a message that ended a process before. Raises StateMismatchError.
    """
    error, row = _read(error_id, record)
    snapshot = configuration.snapshot(error.queue_id, worker=CONSOLE)
    schemas = schemas_for(error.queue.provider, error.queue.topic)
    unit = Reader(snapshot, schemas).row_unit(row)
    return _refusal(error, unit) or _tried(unit, limit)


def _read(error_id: UUID, record: bytes | None) -> tuple[MessageError, OpenError]:
    errors = MessageError.objects.select_related("queue__provider")
    error = errors.filter(pk=error_id).first()
    if error is None:
        raise StateMismatchError(state=None, mover="cleanup", moved_at=None)
    if error.state != ErrorState.HOLD:
        state = ErrorState(error.state)
        raise StateMismatchError(state=state, mover="somebody", moved_at=None)
    [columns] = fetch_all(READ_ROW, [error_id])
    row = open_error(columns)
    old = row.record
    parts = (old.partition, old.offset, old.timestamp_ms, old.key, record, old.headers)
    return error, replace(row, record=Record(*parts))


def _refusal(error: MessageError, unit: Unit) -> Check | None:
    """Return why no handler is called, if none is."""
    if error.failure_class == FailureClass.CRASH or error.crashes:
        why = (
            "It is not run here: the worker's process died while it was in work, and the console "
            "would die as well. Release it; the engine tries it alone."
        )
        return _not_run(unit, why)
    if isinstance(unit.known, Failed):
        return _known(unit, unit.known.failure)
    if error.queue.direction == Queue.Direction.OUTBOUND:
        return Check(ending=Ending.READABLE, interface=unit.interface, was_called=False)
    if unit.taker is not None and unit.taker.at_least_once:
        why = (
            f"It is not run: the handler of {unit.interface} declares effects outside this "
            "database (at_least_once), which no rollback undoes."
        )
        return _not_run(unit, why)
    return None


def _known(unit: Unit, failure: Failure) -> Check:
    if failure.code == "HANDLER_MISSING":
        why = (
            f"It cannot be checked here: no handler for {unit.interface} is installed in the "
            "console's process. The workers may have it. Install its app for the console as well "
            "(SLUICE_INTEGRATIONS), or restart the web server if it is new."
        )
        return _not_run(unit, why)
    return Check(ending=Ending.FAILED, interface=unit.interface, was_called=False, failure=failure)


def _not_run(unit: Unit, why: str) -> Check:
    return Check(ending=Ending.NOT_RUN, interface=unit.interface, was_called=False, why=why)


def _tried(unit: Unit, limit: timedelta) -> Check:
    """A call of the handler that left nothing behind, or what kept it from being that."""
    guard = Guard(limit)
    checked = _undone(unit, guard, limit)
    problem = guard.problem()
    if problem is None:
        return checked
    failure = Failure(FailureClass.PERMANENT, problem.code, str(problem))
    ending = Ending.KEPT if isinstance(problem, NotUndoneError) else Ending.REFUSED
    return Check(ending=ending, interface=unit.interface, failure=failure)


def _undone(unit: Unit, guard: Guard, limit: timedelta) -> Check:
    """The handler's call within its transaction; whatever happens, the end is a rollback."""
    outbound = Outbound()
    token = current.set(outbound)
    try:
        with transaction.atomic(using=alias()):
            try:
                return _called(unit, outbound, guard, limit)
            finally:
                transaction.set_rollback(True, using=alias())
    except DatabaseError as e:
        return _ended(unit, Failed(classify(e)), guard)
    finally:
        current.reset(token)


def _called(unit: Unit, outbound: Outbound, guard: Guard, limit: timedelta) -> Check:
    connection = django_connection()
    bound(limit)
    _number(unit)
    key = _document_key(unit)
    before = None if key is None else _document(*key)
    counted = counts(connection)
    outbound.begin(unit.message)
    guard.enter()
    with connection.execute_wrapper(guard):
        outcome = outcome_of(unit)
    guard.leave()
    if isinstance(outcome, Failed) or guard.is_over or not guard.is_sound:
        return _ended(unit, outcome, guard)
    return Check(
        ending=Ending.SUPERSEDED if outcome == SUPERSEDED else Ending.APPLIED,
        interface=unit.interface,
        tables=tuple(written_since(connection, counted, rows=0)),
        document=None if key is None else _change(*key, before),
        sent=tuple(outbound.rows),
    )


def _number(unit: Unit) -> None:
    """The arrival number that the engine would give it (delivery.attempt)."""
    message, row = unit.message, unit.row
    if message is None or row is None:
        return
    message.topic_uuid = row.topic_uuid
    message.arrival = Arrival(*(row.number or (next_arrival(), 0)))


def _ended(unit: Unit, outcome: Outcome, guard: Guard) -> Check:
    """A failure, or the end of the time that a check has, which is none."""
    if guard.is_over:
        why = (
            f"It was stopped after {LIMIT.seconds} seconds, the time a check may take. That says "
            "nothing about the message: the engine gives its handler more time."
        )
        return Check(ending=Ending.TIMED_OUT, interface=unit.interface, why=why)
    failure = outcome.failure if isinstance(outcome, Failed) else None
    return Check(ending=Ending.FAILED, interface=unit.interface, failure=failure)


def _document_key(unit: Unit) -> tuple[ObjectStructure, str] | None:
    """The stored document that the message is about, if its service stores documents."""
    services = EnterpriseService.objects.select_related("structure")
    service = services.filter(interface=unit.interface).first()
    if service is None or service.structure is None or unit.message is None:
        return None
    entry = plan_for(service.structure).entry(unit.message)
    return (service.structure, entry.key) if isinstance(entry, Entry) else None


def _document(structure: ObjectStructure, key: str) -> str:
    rows = fetch_all(READ_DOCUMENT, [structure.pk, key])
    return next((text or "" for (text,) in rows), "")


def _change(structure: ObjectStructure, name: str, before: str | None) -> DocumentChange:
    return DocumentChange(structure.name, name, before or "", _document(structure, name))
