"""Failures that a handler may raise or return, and what every other exception comes to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import jsonschema
import psycopg
from django.core import exceptions as django_errors
from django.db import DataError as DjangoDataError
from django.db import Error as DjangoDatabaseError
from django.db import OperationalError
from django.db.transaction import TransactionManagementError
from psycopg import errors as pg

from integration.documents.refusals import tidied
from integration.envelope import UnwritableMessage
from integration.errors import IntegrationError
from integration.handlers.traces import sentence, trace
from integration.policy.failure import Failure, FailureClass

_LONGEST_CHAIN: Final = 20


class HandlerError(IntegrationError):
    """A handler says itself what its failure is; raise one of the subclasses.

    `text` is read by people who may not see payloads: name fields and keys, not contents.
    """

    kind: ClassVar[FailureClass]

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.failure_code = code or self.code


class PermanentError(HandlerError):
    """No further try can help; the message is held for a person at once."""

    code = "PERMANENT_ERROR"
    kind = FailureClass.PERMANENT


class TransientError(HandlerError):
    """A later try may well succeed; spends a retry."""

    code = "TRANSIENT_ERROR"
    kind = FailureClass.TRANSIENT


class MissingDependencyError(HandlerError):
    """The message needs an object that has not arrived yet; spends a retry."""

    code = "MISSING_DEPENDENCY"
    kind = FailureClass.DEPENDENCY

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(_missing(kind, key))
        self.needed_kind = kind
        self.needed_key = key


class OutageError(HandlerError):
    """Something every message needs is down; the queue waits and no retry is spent."""

    code = "OUTAGE"
    kind = FailureClass.OUTAGE


class ForeignDatabaseError(HandlerError):
    """A handler's statement went to a database that the engine's transaction does not cover."""

    code = "FOREIGN_DATABASE"
    kind = FailureClass.PERMANENT

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"The handler sent a statement to the database {alias!r}, which is not part of the "
            "transaction: after a crash it would be applied twice. Make it the queue's second "
            "database, or declare the handler with at_least_once=True if that does no harm."
        )


class QueueLockTimeoutError(HandlerError, OperationalError):
    """Another transaction holds a sequential queue's turn for longer than this one may wait.

    Also a database error, as Django has them: only a rollback, at least to a savepoint, makes
    the transaction usable again.
    """

    code = "QUEUE_LOCK_TIMEOUT"
    kind = FailureClass.CONFLICT

    def __init__(self, queue: str, seconds: float) -> None:
        super().__init__(
            f"Another transaction has published to the sequential queue {queue} and has not ended "
            f"within {seconds:g} seconds. Publish late in each transaction, right before its "
            "commit, and look for one that hangs."
        )
        self.queue = queue


class BatchItemError(IntegrationError):
    """Names the message of a batch that failed; write `raise BatchItemError(index) from e`."""

    code = "BATCH_ITEM"

    def __init__(self, index: int) -> None:
        super().__init__(f"The message at place {index} of the batch failed.")
        self.index = index


@dataclass(frozen=True, slots=True)
class Applied:
    """The message's effects are in the transaction; returning None means the same."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """The message's key already has newer data; nothing was written."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The record for another topic is in the transaction's outbox; what forwards says so."""


Verdict = Applied | Superseded | Failure | None


def transient(text: str, code: str = TransientError.code) -> Failure:
    """A verdict: as TransientError, for one message of a batch."""
    return tidied(Failure(FailureClass.TRANSIENT, code, text))


def missing_dependency(kind: str, key: str) -> Failure:
    """A verdict: as MissingDependencyError, for one message of a batch."""
    code = MissingDependencyError.code
    text = _missing(kind, key)
    return tidied(Failure(FailureClass.DEPENDENCY, code, text, waits_for=(str(kind), str(key))))


def outage(text: str) -> Failure:
    """A verdict: as OutageError, for one message of a batch."""
    return tidied(Failure(FailureClass.OUTAGE, OutageError.code, text))


SWALLOWED: Final = "SWALLOWED_DATABASE_ERROR"
# What says that an earlier error has spoilt the transaction.
SPOILT: Final = (TransactionManagementError, pg.InFailedSqlTransaction)


@dataclass(frozen=True, slots=True)
class Rule:
    """Exceptions of these types (and their subclasses) are failures of this kind and code."""

    types: tuple[type[BaseException], ...]
    kind: FailureClass
    code: str


# The first rule that fits the outermost exception decides, then its cause, and so on. Database
# errors arrive as Django's with the driver's as their cause; only the driver's are precise.
# docs/handlers.md shows this table; a test compares them.
RULES: Final = (
    Rule((django_errors.ValidationError,), FailureClass.PERMANENT, "VALIDATION"),
    Rule((jsonschema.ValidationError,), FailureClass.PERMANENT, "SCHEMA_VIOLATION"),
    Rule((UnwritableMessage,), FailureClass.PERMANENT, UnwritableMessage.code),
    Rule((psycopg.DataError, DjangoDataError), FailureClass.PERMANENT, "DATA_ERROR"),
    Rule((pg.NotNullViolation,), FailureClass.PERMANENT, "NOT_NULL_VIOLATION"),
    Rule((pg.CheckViolation,), FailureClass.PERMANENT, "CHECK_VIOLATION"),
    Rule(SPOILT, FailureClass.PERMANENT, SWALLOWED),
    Rule((pg.ForeignKeyViolation,), FailureClass.DEPENDENCY, "FOREIGN_KEY_VIOLATION"),
    Rule((django_errors.ObjectDoesNotExist,), FailureClass.DEPENDENCY, "OBJECT_MISSING"),
    Rule((pg.UniqueViolation,), FailureClass.TRANSIENT, "UNIQUE_VIOLATION"),
    Rule((pg.LockNotAvailable,), FailureClass.TRANSIENT, "LOCK_NOT_AVAILABLE"),
    Rule((pg.QueryCanceled,), FailureClass.TRANSIENT, "STATEMENT_TIMEOUT"),
    Rule((pg.DeadlockDetected,), FailureClass.CONFLICT, "DEADLOCK"),
    Rule((pg.SerializationFailure,), FailureClass.CONFLICT, "SERIALIZATION_FAILURE"),
    Rule(
        (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow),
        FailureClass.OUTAGE,
        "DATABASE_SHUTDOWN",
    ),
    Rule((pg.TooManyConnections, pg.DiskFull), FailureClass.OUTAGE, "DATABASE_FULL"),
    Rule((pg.ReadOnlySqlTransaction,), FailureClass.OUTAGE, "DATABASE_READ_ONLY"),
    Rule((ConnectionError,), FailureClass.OUTAGE, "CONNECTION_ERROR"),
)
# Errors that the driver raises without a code of the server's: the connection is gone.
LOST: Final = Rule((psycopg.OperationalError,), FailureClass.OUTAGE, "DATABASE_LOST")
# A swallowed error of these kinds is still one of these kinds.
_SEEN_THROUGH: Final = frozenset({FailureClass.CONFLICT, FailureClass.OUTAGE})


class Judged(NamedTuple):
    """The meaning of one exception of a chain."""

    kind: FailureClass
    code: str
    exception: BaseException


def classify(exception: BaseException, *, by_cause: bool = False) -> Failure:
    """The failure that an exception of a handler comes to. Never raises.

    Looks at the exception, then at its causes (`raise … from`, else what was being handled). An
    exception that nothing is known about is TRANSIENT with its class name as the code.
    `by_cause`: what was only being handled when it was raised does not count, unless it has spoilt
    the transaction.
    """
    chain = list(_chain(exception, by_cause=by_cause))
    judged = list(filter(None, map(_judge, chain)))
    if not judged:
        judged = [Judged(FailureClass.TRANSIENT, _own_code(chain[0]), chain[0])]
    first = judged[0]
    if first.code == SWALLOWED:
        first = next((other for other in judged if other.kind in _SEEN_THROUGH), first)
    text, needed = sentence(first.exception), None
    if isinstance(first.exception, MissingDependencyError):
        needed = str(first.exception.needed_kind), str(first.exception.needed_key)
    return tidied(Failure(first.kind, first.code, text, trace(chain), needed))


def _chain(exception: BaseException, *, by_cause: bool) -> Iterator[BaseException]:
    """The exception and its causes, without wrappers that say less than what they wrap."""
    seen: set[int] = set()
    link: BaseException | None = exception
    while link is not None and id(link) not in seen and len(seen) < _LONGEST_CHAIN:
        seen.add(id(link))
        is_alone = link.__suppress_context__ or (by_cause and not isinstance(link, SPOILT))
        behind = link.__cause__ or (None if is_alone else link.__context__)
        if behind is None or not _only_wraps(link):
            yield link
        link = behind


def _only_wraps(link: BaseException) -> bool:
    if isinstance(link, IntegrationError):
        return isinstance(link, BatchItemError)
    return isinstance(link, DjangoDatabaseError) and isinstance(link.__cause__, psycopg.Error)


def _judge(link: BaseException) -> Judged | None:
    if isinstance(link, HandlerError):
        return Judged(link.kind, link.failure_code, link)
    for rule in RULES:
        if isinstance(link, rule.types):
            return Judged(rule.kind, rule.code, link)
    if isinstance(link, LOST.types) and (getattr(link, "sqlstate", None) or "08")[:2] == "08":
        return Judged(LOST.kind, LOST.code, link)
    return None


def _own_code(link: BaseException) -> str:
    return link.code if isinstance(link, IntegrationError) else type(link).__name__


def _missing(kind: str, key: str) -> str:
    return f"{kind} {key!r} is not there yet."
