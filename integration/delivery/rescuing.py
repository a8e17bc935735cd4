"""The rescue: untried records are copied into the database before their topic forgets them.

It holds lock and epoch of a partition as a run does, and applies nothing: no handler is called and
no position moves. What it copies in one commit is one piece, with the range that says so; a run
reads these records before Kafka's (`delivery.rescued`). What is gone before it could be copied
stays a gap, for the run to find.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

from integration.delivery.owned import Owned
from integration.delivery.ports import Source
from integration.errors import IntegrationError
from integration.policy.rescue import Range, next_piece
from integration.values import Record, TopicFacts

PIECE_RECORDS: Final = 10_000
PIECE_BYTES: Final = 8 * 2**20
WAIT_SECONDS: Final = 0.2
# A broker that neither gives records nor says why is not waited for for ever.
SILENCE_SECONDS: Final = 30.0

FULL: Final = "RESCUE_FULL"
FENCED: Final = "RESCUE_FENCED"
SILENT: Final = "RESCUE_SILENT"
STOPPED: Final = "RESCUE_STOPPED"
CODES: Final = frozenset({FULL, FENCED, SILENT, STOPPED})


class RescueStep(StrEnum):
    """The point a rescue has reached; reported between two effects."""

    TAKEN = "taken"  # lock held, epoch raised
    READ = "read"  # a piece is in memory
    BEGUN = "begun"  # its transaction is open
    COPIED = "copied"  # its records are written, not committed
    COMMITTED = "committed"  # the instant after the commit
    RELEASED = "released"  # lock given back


@dataclass(frozen=True, slots=True)
class Piece:
    """Every record of the offsets [first, end), and what kept the queue from reading them.

    `sizes` are the bytes of each that the queue's limit counts.
    """

    first: int
    end: int
    records: Sequence[Record]
    reason: str
    sizes: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", [size_of(record) for record in self.records])


class RescueStore(Protocol):
    """What a rescue writes. Database errors are raised as Django's."""

    def first_untried(self, owned: Owned) -> int:
        """The first offset that no failure stands for: behind the head of a sequential queue."""

    def room(self) -> int:
        """Return how many bytes the queue's limit leaves; less than nothing once it was lowered."""

    def add(self, owned: Owned, piece: Piece, step: Callable[[RescueStep], None]) -> bool:
        """Commit a piece: records, range, and the partition's row; False when fenced."""

    def note(self, owned: Owned, code: str, text: str) -> None:
        """Write down how the rescue of a partition ended; an empty code: all that was asked for."""


def _nothing(_: RescueStep) -> None:
    """Nobody watches."""


@dataclass(slots=True, kw_only=True)
class RescueContext:
    """What a rescue works with. `stop` is asked between pieces, and is true once it must end.

    `reasons` are what keeps each partition from being read, for people.
    """

    source: Source
    store: RescueStore
    reasons: Mapping[int, str]
    stop: Callable[[], bool] = lambda: False
    step: Callable[[RescueStep], None] = _nothing
    monotonic: Callable[[], float] = time.monotonic
    piece_records: int = PIECE_RECORDS


class Ending(NamedTuple):
    """Why the rescue of a partition ended; both are empty where all was copied."""

    code: str = ""
    text: str = ""


@dataclass(slots=True)
class RescueReport:
    """What came of it: `gone` counts offsets that were forgotten, `endings` are by partition."""

    records: int = 0
    bytes: int = 0
    gone: int = 0
    endings: dict[int, Ending] = field(default_factory=dict)


def rescue(context: RescueContext, held: Sequence[Owned], until: Mapping[int, int]) -> RescueReport:
    """Copy what is untried below `until` (partition -> offset), partition by partition."""
    report = RescueReport()
    for owned in held:
        ending = _Rescuer(context, owned, until[owned.partition], report).run()
        report.endings[owned.partition] = ending
        if ending.code not in {FENCED, STOPPED}:
            context.store.note(owned, *ending)
    return report


def size_of(record: Record) -> int:
    """Return the bytes that the queue's limit counts."""
    size = len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(len(name) + len(value or b"") for name, value in record.headers)
    return size


class _Reading:
    """A range that is being read; everything below `reached` was seen."""

    def __init__(self, context: RescueContext, partition: int, bounds: Range) -> None:
        self.context, self.partition = context, partition
        self.reached, self.end = bounds
        self.is_drained = False
        context.source.attach({partition: self.reached})

    def piece(self) -> list[Record]:
        """The next records; fewer, or none, where Kafka has no more of them or is in trouble."""
        records: list[Record] = []
        size = 0
        most = self.context.piece_records
        while self.reached < self.end and len(records) < most and size < PIECE_BYTES:
            fetched = self.context.source.fetch(most - len(records), WAIT_SECONDS)
            came = fetched.records.get(self.partition, [])
            wanted = [record for record in came if record.offset < self.end]
            records += wanted
            size += sum(len(record.value or b"") for record in wanted)
            if came:
                self.reached = min(self.end, came[-1].offset + 1)
            if self.partition in fetched.drained:
                self.reached = min(self.end, max(self.reached, fetched.ends[self.partition]))
                self.is_drained = self.reached < self.end
            if not came or fetched.troubles or self.is_drained:
                break
        return records


class _Rescuer:
    """The rescue of one partition."""

    def __init__(
        self, context: RescueContext, owned: Owned, until: int, report: RescueReport
    ) -> None:
        self.context, self.owned, self.until, self.report = context, owned, until, report
        self.at = context.store.first_untried(owned)
        self.moved_at = context.monotonic()
        self.reading: _Reading | None = None

    def run(self) -> Ending:
        """Copy piece after piece; the ending."""
        while (bounds := next_piece(self.owned.rescued, self.at, self.until)) is not None:
            if self.context.stop():
                return Ending(STOPPED, "It was told to end, and goes on with the next one.")
            ending = self._piece(bounds)
            if ending is not None:
                return ending
        return Ending()

    def _piece(self, bounds: Range) -> Ending | None:
        if self.reading is None or (self.reading.reached, self.reading.end) != bounds:
            self.reading = _Reading(self.context, self.owned.partition, bounds)
        reading, records = self.reading, self.reading.piece()
        self.context.step(RescueStep.READ)
        # Asked after the reading: records of another topic under this name are never copied.
        try:
            facts = self.context.source.facts()
        except IntegrationError as e:
            return Ending(e.code, str(e))
        strange = self._strangeness(facts)
        if facts is None or strange is not None:
            return strange
        if reading.reached > bounds[0]:
            self.moved_at = self.context.monotonic()
            reason = self.context.reasons.get(self.owned.partition, "")
            return self._store(Piece(bounds[0], reading.reached, records, reason))
        return self._nothing_came(bounds, facts)

    def _strangeness(self, facts: TopicFacts | None) -> Ending | None:
        if facts is None or self.owned.partition not in facts.low:
            return Ending("TOPIC_GONE", "The topic does not exist on the broker any more.")
        if facts.topic_uuid != self.owned.topic_uuid:
            return Ending("TOPIC_RECREATED", "The topic was deleted and created again.")
        return None

    def _nothing_came(self, bounds: Range, facts: TopicFacts) -> Ending | None:
        low = facts.low[self.owned.partition]
        if low > bounds[0]:
            # Gone under our hands; what stands behind it is copied all the same.
            self.report.gone += min(low, bounds[1]) - bounds[0]
            self.at, self.reading = low, None
            return None
        if self.reading is not None and self.reading.is_drained:
            return Ending()
        if self.context.monotonic() - self.moved_at > SILENCE_SECONDS:
            return Ending(SILENT, "Kafka gave no record for half a minute, and no reason.")
        return None

    def _store(self, piece: Piece) -> Ending | None:
        fitting = self._fitting(piece)
        if fitting.records or fitting is piece:
            if not self.context.store.add(self.owned, fitting, self.context.step):
                return Ending(FENCED, "Somebody else took the partition, or moved its position.")
            self.owned.rescued = (*self.owned.rescued, (fitting.first, fitting.end))
            self.report.records += len(fitting.records)
            self.report.bytes += sum(fitting.sizes)
        if fitting is not piece:
            return Ending(FULL, f"The queue's limit is reached at offset {fitting.end}.")
        return None

    def _fitting(self, piece: Piece) -> Piece:
        """As much of the piece as the limit leaves room for; the piece itself if all of it."""
        room = self.context.store.room()
        # A range of markers alone takes no room, however far beyond its limit the queue is.
        if not piece.records or sum(piece.sizes) <= room:
            return piece
        place = next(at for at, used in enumerate(accumulate(piece.sizes)) if used > room)
        end = piece.records[place].offset
        return Piece(piece.first, end, piece.records[:place], piece.reason)
