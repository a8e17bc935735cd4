"""The in-memory fakes of the relay's ports: the publisher with the broker it writes to, and the
ownership of a shard with the rows it sends. Same contract suites.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from integration.delivery.relay.ports import (
    FencedError,
    OutgoingRow,
    Refused,
    RelayLostError,
    Sent,
    Unavailable,
    Verdict,
)
from integration.delivery.relay.steps import RelayObserver, RelayStep
from integration.kafka.errors import BrokerUnreachableError
from integration.policy import relay_shares
from integration.policy.relay_shares import NOTHING, Share, bucket


@dataclass
class MemoryBroker:
    """What is committed, and what to do wrong next."""

    cluster: str = field(default_factory=lambda: uuid4().hex)
    records: list[OutgoingRow] = field(default_factory=list)
    watermarks: dict[str, str] = field(default_factory=dict)
    owners: dict[str, object] = field(default_factory=dict)
    topics: set[str] | None = None
    max_bytes: int = 1_000_000
    is_available: bool = True
    # Topics that cannot be written, and why; and whether the cluster says so.
    ailing: dict[str, str] = field(default_factory=dict)
    tells_ailing: bool = True
    # It cannot end the transaction before, and so begins no other.
    is_pending: bool = False
    # Confirmed, but never ended: nobody can read it.
    hanging: list[OutgoingRow] = field(default_factory=list)
    # How many commits still get lost on the way back: written, but the answer never comes.
    lost_answers: int = 0

    def refusal(self, row: OutgoingRow) -> str | None:
        if self.topics is not None and row.topic not in self.topics:
            return "UNKNOWN_TOPIC"
        if len(row.value or b"") > self.max_bytes:
            return "MSG_SIZE_TOO_LARGE"
        return None


class MemoryPublisher:
    """Implements integration.delivery.relay.ports.Publisher over a MemoryBroker."""

    def __init__(self, broker: MemoryBroker, transactional_id: str = "relay") -> None:
        self.broker = broker
        self._id = transactional_id
        self._is_open = False

    def open(self) -> None:
        self._answer()
        if self.broker.is_pending:
            raise BrokerUnreachableError("memory", "concurrent transactions")
        self.broker.owners[self._id] = self
        self._is_open = True

    def cluster(self) -> str:
        self._answer()
        return self.broker.cluster

    def watermark(self) -> str | None:
        self._answer()
        return self.broker.watermarks.get(self._id)

    @property
    def has_hanging(self) -> bool:
        return False

    def ailing(self, topics: Collection[str]) -> Mapping[str, str]:
        self._answer()
        if not self.broker.tells_ailing:
            raise BrokerUnreachableError("memory", "no answer in time")
        return {topic: self.broker.ailing[topic] for topic in topics if topic in self.broker.ailing}

    def abort_hanging(self, topics: Collection[str]) -> None:
        self._answer()
        self.broker.hanging = [row for row in self.broker.hanging if row.topic not in topics]

    def there(self, rows: Sequence[OutgoingRow], since_ms: int) -> set[int]:
        self._answer()
        assert since_ms > 0
        return {row.id for row in rows} & {record.id for record in self.broker.records}

    def write_watermark(self, text: str) -> None:
        self._answer()
        self._check_fence()
        self.broker.watermarks[self._id] = text

    def publish(
        self,
        batch: UUID,
        rows: Sequence[OutgoingRow],
        stamp: Callable[[], None],
        observer: RelayObserver,
    ) -> Verdict:
        observer(RelayStep.BEGUN)
        for index, row in enumerate(rows):
            code = self.broker.refusal(row)
            if code is not None:
                return Refused(index, code, f"{code}: row {row.id}")
        observer(RelayStep.PRODUCED)
        stamp()
        observer(RelayStep.FLUSHED)
        if any(row.topic in self.broker.ailing for row in rows):
            return Unavailable("not confirmed in time")
        observer(RelayStep.WATERMARKED)
        return self._commit(batch, rows, lambda: observer(RelayStep.COMMITTED))

    def _commit(
        self, batch: UUID, rows: Sequence[OutgoingRow], committed: Callable[[], None]
    ) -> Verdict:
        self._check_fence()
        if not (self.broker.is_available and self._is_open):
            return Unavailable("switched off")
        self.broker.records += rows
        self.broker.watermarks[self._id] = str(batch)
        if self.broker.lost_answers > 0:
            self.broker.lost_answers -= 1
            return Unavailable("the answer was lost")
        committed()
        return Sent()

    def _check_fence(self) -> None:
        if self._is_open and self.broker.owners.get(self._id) is not self:
            raise FencedError(self._id)

    def _answer(self) -> None:
        if not self.broker.is_available:
            raise BrokerUnreachableError("memory", "switched off")

    def close(self) -> None:
        self._is_open = False


@dataclass
class MemoryLease:
    """One shard as the database has it. `is_locked` is true while its owner lives."""

    epoch: int = 0
    held: Share = NOTHING
    batch: UUID | None = None
    ids: list[int] = field(default_factory=list)
    watermark: str | None = None
    watermark_before: str = ""
    watermark_ids: list[int] = field(default_factory=list)
    cluster: str = ""
    provider_as_of: str = ""
    in_doubt: str = ""
    trouble: str = ""
    is_locked: bool = False


@dataclass
class MemoryRelays:
    """One provider's outbox, the leases of its shards, and how many shards people want."""

    shards: int = 1
    provider_as_of: str = ""
    rows: dict[int, OutgoingRow] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    leases: dict[int, MemoryLease] = field(default_factory=dict)
    # As few in a batch as in a test that has to see many.
    batch_rows: int = 5_000

    def put(self, topic: str, value: bytes) -> int:
        number = len(self.rows) + 1
        self.rows[number] = OutgoingRow(number, topic, None, None, value, ())
        self.states[number] = "PENDING"
        return number

    def take(self, shard: int) -> "MemoryTenure | None":
        lease = self.leases.setdefault(shard, MemoryLease())
        if lease.is_locked:
            return None
        lease.is_locked = True
        lease.epoch += 1
        return MemoryTenure(self, shard, lease)

    def served(self) -> list[int]:
        """The shards that people want, and those beyond that still hold something."""
        beyond = (shard for shard, lease in self.leases.items() if lease.held)
        return sorted({*range(self.shards), *beyond})


class MemoryOutbox:
    """Implements integration.delivery.relay.ports.Outbox over MemoryRelays."""

    def __init__(self, relays: MemoryRelays, lease: MemoryLease) -> None:
        self._relays = relays
        self._lease = lease
        self._epoch = lease.epoch
        self._held = lease.held
        self._marking: tuple[UUID, int] | None = None

    def check(self) -> None:
        if self._lease.epoch != self._epoch:
            raise RelayLostError

    @property
    def held(self) -> Share:
        return self._held

    def give_up(self, kept: Share) -> None:
        self.check()
        if self._lease.batch is not None or self._lease.in_doubt:
            raise RelayLostError
        self._held = self._lease.held = kept

    def take(self, share: Share) -> bool:
        others = [lease for lease in self._relays.leases.values() if lease is not self._lease]
        if any(other.held.common(share) for other in others):
            return False
        self.check()
        self._held = self._lease.held = share
        return True

    def has_due(self, left_out: Collection[str] = ()) -> bool:
        return bool(self._due(left_out))

    def due(
        self, *, rows: int, size_bytes: int, left_out: Collection[str] = ()
    ) -> Sequence[OutgoingRow]:
        return self._due(left_out)[: min(rows, self._relays.batch_rows)]

    def _due(self, left_out: Collection[str]) -> list[OutgoingRow]:
        marked = self._lease.ids if self._marking else []
        return [
            row
            for number, row in self._relays.rows.items()
            if self._relays.states[number] == "PENDING"
            and bucket(row.topic) in self._held
            and row.topic not in left_out
            and number not in marked
        ]

    def stamp(self, batch: UUID, rows: Sequence[OutgoingRow]) -> None:
        self.check()
        self._lease.batch, self._lease.ids = batch, [row.id for row in rows]

    def stamped(self) -> tuple[UUID, int] | None:
        batch = self._lease.batch
        return None if batch is None else (batch, len(self._lease.ids))

    def mark_published(self, batch: UUID, count: int) -> None:
        self._marking = batch, count

    def await_marked(self) -> None:
        if self._marking is None:
            return
        (batch, count), self._marking = self._marking, None
        sent = self._lease.ids
        self._let_go(batch, count, "PUBLISHED")
        self._lease.watermark_before = self._lease.watermark or ""
        self._lease.watermark, self._lease.watermark_ids = str(batch), sent

    def unstamp(self, batch: UUID, count: int) -> None:
        self._let_go(batch, count, "PENDING")

    def bury(self, batch: UUID, *, code: str, text: str) -> None:
        self._let_go(batch, 1, "DEAD")

    def _let_go(self, batch: UUID, count: int, state: str) -> None:
        self.check()
        if self._lease.batch != batch or len(self._lease.ids) != count:
            raise RelayLostError
        for number in self._lease.ids:
            self._relays.states[number] = state
        self._lease.batch, self._lease.ids = None, []

    def is_in_doubt(self) -> bool:
        self.check()
        return bool(self._lease.in_doubt)

    def watermark(self) -> str | None:
        return self._lease.watermark

    def watermark_before(self) -> str:
        return self._lease.watermark_before

    def cluster(self) -> str:
        return self._lease.cluster

    def provider_as_of(self) -> str:
        return self._lease.provider_as_of

    def note_cluster(self, name: str, *, as_of: str) -> None:
        self.check()
        self._lease.cluster, self._lease.provider_as_of = name, as_of

    def topics_at_stake(self) -> set[str]:
        ids = [*self._lease.watermark_ids, *self._lease.ids]
        return {self._relays.rows[number].topic for number in ids}

    def last_sent(self) -> tuple[Sequence[OutgoingRow], int]:
        return [self._relays.rows[number] for number in self._lease.watermark_ids], 1

    def send_again(self, ids: Sequence[int]) -> None:
        self.check()
        self._relays.states |= dict.fromkeys(ids, "PENDING")

    def note_watermark(self, text: str) -> None:
        self.check()
        self._lease.watermark, self._lease.watermark_before = text, ""

    def note_trouble(self, text: str) -> None:
        self.check()
        self._lease.trouble = text

    def went_back(self, text: str) -> None:
        self._lease.in_doubt = text

    def doubt(self, batch: UUID, text: str) -> None:
        self.check()
        self._lease.in_doubt = text


class MemoryTenure:
    """Implements integration.delivery.relay.ports.Tenure over MemoryRelays."""

    def __init__(self, relays: MemoryRelays, shard: int, lease: MemoryLease) -> None:
        self.outbox = MemoryOutbox(relays, lease)
        self._relays = relays
        self._shard = shard
        self._lease = lease
        self.renew()

    def renew(self) -> None:
        """Learn how many shards people want, and what the provider is."""
        self.provider_as_of = self._relays.provider_as_of
        self.share = relay_shares.share(self._shard, self._relays.shards)

    def provider_now(self) -> str:
        return self._relays.provider_as_of

    def sign(self) -> None:
        self.outbox.check()

    def close(self) -> None:
        if self._lease.epoch == self.outbox._epoch:
            self._lease.is_locked = False
