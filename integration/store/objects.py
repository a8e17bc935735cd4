"""The object store, and the guard that keeps a late message from putting a key back in time."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db import IntegrityError
from psycopg import errors as pg

from integration.delivery.policy.failure import Failure
from integration.documents.structures import Entry, plan_for, version_of
from integration.errors import IntegrationError
from integration.handlers.failures import Applied, PermanentError, Superseded, Verdict
from integration.handlers.message import Message
from integration.models import ObjectStructure
from integration.newness import DOCUMENT, REST
from integration.store.sessions import django_connection

# A document to be written, and the place of its message among the others.
Placed = tuple[int, Entry]

APPLIED: Final = Applied()
SUPERSEDED: Final = Superseded()

INSERT: Final = """
INSERT INTO integration_storedobject AS o (structure_id, key, document, xml, sort_version, version,
  arrival_batch, arrival_index, message_id, topic_uuid, partition, "offset", updated_at)
SELECT (SELECT id FROM integration_objectstructure WHERE name = %s), v.key, v.document, v.xml,
  v.sort_version, 1, v.batch, v.place, v.message_id, v.topic_uuid, v.partition, v.at,
  clock_timestamp()
FROM unnest(%s::text[], %s::jsonb[], %s::text[], %s::numeric[], %s::bigint[], %s::bigint[],
  %s::text[], %s::text[], %s::int[], %s::bigint[])
  v (key, document, xml, sort_version, batch, place, message_id, topic_uuid, partition, at)
ON CONFLICT (structure_id, key) DO UPDATE SET
"""
STORE: Final = INSERT + DOCUMENT + REST
CLAIM: Final = INSERT + REST


class UnknownStructureError(IntegrationError):
    """A handler names an object structure that does not exist."""

    code = "UNKNOWN_STRUCTURE"

    def __init__(self, structure: str) -> None:
        super().__init__(
            f"There is no object structure named {structure!r}.",
            next_step="Create it, or correct the name in the handler.",
        )


def store_documents(structure: ObjectStructure, messages: Sequence[Message]) -> list[Verdict]:
    """Store documents, or deletions, where they are newer than what their keys have.

    One statement for all messages, as a rule; one verdict for each, in their order.
    Of several messages with one key only the newest is written, the others are Superseded; where
    some of them have a version and some have none, as many as one by one would be. A
    message without a key, or one that the schema refuses, gets a permanent Failure.
    Raises Django's database errors.
    """
    plan = plan_for(structure)
    verdicts: list[Verdict] = []

    def placed() -> Iterator[Placed]:
        for place, message in enumerate(messages):
            entry = plan.entry(message)
            if isinstance(entry, Failure):
                verdicts.append(entry)
            else:
                verdicts.append(SUPERSEDED)
                yield place, entry

    for place, _ in _write_in_turn(structure.name, placed(), STORE):
        verdicts[place] = APPLIED
    return verdicts


def claim_newest(
    structure: str, key: str, message: Message, *, version: int | datetime | None = None
) -> bool:
    """Whether `message` is the newest for (structure, key); True locks the key until the commit.

    For handlers that write tables of their own: write only when it is True, else return
    Superseded(). Raises UnknownStructureError.
    """
    return claim_all(structure, [(key, message, version)])[0]


def claim_all(
    structure: str, claims: Sequence[tuple[str, Message, int | datetime | None]]
) -> list[bool]:
    """As claim_newest for (key, message, version) of a whole batch, mostly in one statement.

    Of several claims of one key only the newest can be True. Raises UnknownStructureError, and
    PermanentError BAD_VERSION for a version that is no integer or timestamp.
    """
    placed = [
        (place, Entry(key, message, version=_version(version)))
        for place, (key, message, version) in enumerate(claims)
    ]
    # Of a key that was written more than once the last one stands.
    newest = {entry.key: place for place, entry in _write_in_turn(structure, placed, CLAIM)}
    answers = [False] * len(claims)
    for place in newest.values():
        answers[place] = True
    return answers


def _version(given: int | datetime | None) -> Decimal | None:
    version = version_of(given)
    if isinstance(version, Failure):
        raise PermanentError(version.text, code=version.code)
    return version


def _is_newer(entry: Entry, known: Entry) -> bool:
    """The rule of NEWER, for two messages of one batch that both have a version, or both none."""
    if entry.version is not None and known.version is not None and entry.version != known.version:
        return entry.version > known.version
    return entry.message.arrival > known.message.arrival


def _write_in_turn(structure: str, placed: Iterable[Placed], sql: str) -> Iterator[Placed]:
    """What was written, each with its place: the same as if each had been written alone."""
    left: Collection[Placed] | None = None
    while left is None or left:
        newest, left = _reduced(placed if left is None else left)
        for key in _write(structure, [entry for _, entry in newest.values()], sql):
            yield newest[key]


def _reduced(placed: Iterable[Placed]) -> tuple[dict[str, Placed], list[Placed]]:
    """The newest of each key, and what has to be written after these.

    One with a version and one without (a deletion, for one) are not reduced to the newer of them:
    a third may be older than the first and newer than the second, so each is put against what is
    stored by then.
    """
    newest: dict[str, Placed] = {}
    later: list[Placed] = []
    mixed: set[str] = set()
    for one in placed:
        entry = one[1]
        known = newest.get(entry.key)
        if known is None:
            newest[entry.key] = one
        elif entry.key in mixed or (entry.version is None) != (known[1].version is None):
            mixed.add(entry.key)
            later.append(one)
        elif _is_newer(entry, known[1]):
            newest[entry.key] = one
    return newest, later


def _write(structure: str, entries: list[Entry], sql: str) -> list[str]:
    """The keys that were written. Keys go in sorted, so that two batches cannot deadlock."""
    if not entries:
        return []
    entries.sort(key=lambda entry: entry.key)
    columns: list[list[Any]] = [list(column) for column in zip(*map(_row, entries), strict=True)]
    try:
        with django_connection().cursor() as cursor:
            cursor.execute(sql, [structure, *columns])
            return [key for (key,) in cursor.fetchall()]
    except IntegrityError as e:
        if isinstance(e.__cause__, pg.NotNullViolation):
            raise UnknownStructureError(structure) from None
        raise


def _row(entry: Entry) -> tuple[Any, ...]:
    message = entry.message
    return (
        entry.key,
        entry.document,
        entry.xml,
        entry.version,
        *message.arrival,
        message.message_id,
        message.topic_uuid,
        message.partition,
        message.offset,
    )
