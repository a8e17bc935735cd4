"""The object store, and the guard that keeps a late message from putting a key back in time."""

import itertools
from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db import IntegrityError
from psycopg import errors as pg

from integration.documents.structures import Entry, plan_for, version_of
from integration.errors import IntegrationError
from integration.handlers.arrivals import Arrived, note
from integration.handlers.failures import Applied, PermanentError, Superseded, Verdict
from integration.handlers.ports import Claim
from integration.message import Arrival, Message
from integration.models import ObjectStructure
from integration.newness import DOCUMENT, REST
from integration.policy.failure import Failure
from integration.store.sessions import fetch_all

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
    some of them have versions and others not, those that may count are written in turn. A
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
                if entry.document is not None or entry.xml:
                    keys[place] = entry.key
                yield place, entry

    keys: dict[int, str] = {}
    came: list[str] = []
    for place in _written(structure.name, placed(), STORE):
        verdicts[place] = APPLIED
        if place in keys:
            came.append(keys[place])
    if came:
        note(Arrived(structure.name, came, is_stored=True))
    return verdicts


def claim_all(structure: str, claims: Sequence[Claim]) -> list[bool]:
    """The newness guard of `integration.handlers.ports`, mostly in one statement."""
    placed = [
        (place, Entry(key, message, version=_version(version)))
        for place, (key, message, version) in enumerate(claims)
    ]
    # Of a key that was written more than once the last one stands.
    newest = {claims[place][0]: place for place in _written(structure, placed, CLAIM)}
    answers = [False] * len(claims)
    for place in newest.values():
        answers[place] = True
    return answers


def _version(value: int | datetime | None) -> Decimal | None:
    version = version_of(value)
    if isinstance(version, Failure):
        raise PermanentError(version.text, code=version.code)
    return version


Placed = tuple[int, Entry]
"""A message and its place in the batch."""


def _written(structure: str, placed: Iterable[Placed], sql: str) -> Iterator[int]:
    """The places of the messages that were written. The first statement locks all keys."""
    now: dict[str, Placed] = {}
    several: dict[str, list[Placed]] = {}
    for pair in placed:
        first = now.setdefault(pair[1].key, pair)
        if first is not pair:
            several.setdefault(pair[1].key, [first]).append(pair)
    turns: dict[str, Generator[Placed, bool, None]] = {}
    for key, some in several.items():
        if any(entry.version is not None for _, entry in some):
            turn = turns[key] = _in_turn(some)
            now[key] = next(turn)
        else:
            now[key] = max(some, key=_arrival)
    while now:
        written = _write(structure, [entry for _, entry in now.values()], sql)
        for key in written:
            yield now[key][0]
        counted = frozenset(written) if turns else frozenset()
        following = {key: _following(turn, key in counted) for key, turn in turns.items()}
        now = {key: pair for key, pair in following.items() if pair is not None}


def _following(turn: Generator[Placed, bool, None], was_written: bool) -> Placed | None:
    try:
        return turn.send(was_written)
    except StopIteration:
        return None


def _in_turn(of_key: Sequence[Placed]) -> Generator[Placed, bool, None]:
    """Those of one key's messages that may count; it is sent whether each was written.

    At least one of them has a version.

    Between messages with versions and such without newness has no order: 5 is older than a later
    one without, that is older than a later 3, and that is older than 5. What is stored decides,
    and it must not matter whether messages come in one batch or one by one.
    """
    arrivals = [_arrival(placed) for placed in of_key]
    if any(one >= other for one, other in itertools.pairwise(arrivals)):
        for placed in _climbing(of_key):
            # Not by `yield from`: a list cannot be sent anything.
            _ = yield placed
        return
    rest = of_key
    while rest:
        was_written = False
        last = 0
        for last in _that_count(rest):
            was_written = (yield rest[last]) or was_written
        # What is stored came in between: it may be older than those behind, and than no other.
        rest = [] if was_written else rest[last + 1 :]


def _that_count(of_key: Sequence[Placed]) -> list[int]:
    """The places of at most three of them, which arrived in this order.

    What is stored came before them: the last one without a version counts, and behind it the
    highest version, of equals the latest. It came after them: nothing but the highest version can,
    of equals the first.
    """
    versions = [entry.version for _, entry in of_key]
    bare = [place for place, version in enumerate(versions) if version is None]
    behind = versions[bare[-1] + 1 :] if bare else versions
    places = {*bare[-1:], _highest(versions)}
    if behind:
        places.add(len(versions) - 1 - _highest(behind[::-1]))
    return sorted(places)


def _highest(versions: Sequence[Decimal | None]) -> int:
    """The place of the first of those with the highest version."""
    return versions.index(max(version for version in versions if version is not None))


def _climbing(of_key: Sequence[Placed]) -> list[Placed]:
    """All of them but those that the next one replaces wherever they count."""
    climbing: list[Placed] = []
    for pair in of_key:
        while climbing and _replaces(pair[1], climbing[-1][1]):
            climbing.pop()
        climbing.append(pair)
    return climbing


def _replaces(entry: Entry, earlier: Entry) -> bool:
    if entry.message.arrival <= earlier.message.arrival:
        return False
    if entry.version is None or earlier.version is None:
        return entry.version is earlier.version
    return entry.version > earlier.version


def _arrival(placed: Placed) -> Arrival:
    return placed[1].message.arrival


def _write(structure: str, entries: list[Entry], sql: str) -> list[str]:
    """The keys that were written. Keys go in sorted, so that two batches cannot deadlock."""
    if not entries:
        return []
    entries.sort(key=lambda entry: entry.key)
    columns: list[list[Any]] = [list(column) for column in zip(*map(_row, entries), strict=True)]
    try:
        return [key for (key,) in fetch_all(sql, [structure, *columns])]
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
