"""The ports through which the relay reaches Kafka and the database.

The real publisher is in integration.kafka, the SQL in integration.store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from integration.delivery.relay.steps import RelayObserver
from integration.errors import IntegrationError
from integration.policy.branches import Branch
from integration.policy.relay_shares import Share
from integration.values import Headers


class FencedError(IntegrationError):
    """Another process has taken over this transactional id; this one must stop."""

    code = "RELAY_FENCED"

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"Another process writes as {transactional_id}.",
            next_step="Nothing to do: the other process continues the work.",
        )


class RelayLostError(IntegrationError):
    """This process no longer owns the shard."""

    code = "RELAY_LOST"

    def __init__(self, text: str = "") -> None:
        super().__init__(
            f"This relay has lost its session. {text}".strip()
            if text
            else "Another process has taken over this relay.",
            next_step="Nothing to do: the next owner continues the work.",
        )


class OutgoingRow:
    """One row of the outbox on its way. A plain slotted class: one is made per message."""

    __slots__ = ("headers", "id", "key", "partition", "timestamp_ms", "topic", "value")

    def __init__(  # noqa: PLR0913, PLR0917 - positional, as one is made for every message
        self,
        id: int,  # noqa: A002 - the row's own word
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int | None = None,
    ) -> None:
        self.id = id
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms


@dataclass(frozen=True, slots=True)
class Sent:
    """Every record and the watermark are committed."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing is written: Kafka will never take the record at `index`, as things stand."""

    index: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No verdict about any record. Whether it was written only `open` and `watermark` tell."""

    text: str


Verdict = Sent | Refused | Unavailable


def nothing_to_prepare() -> None:
    """No other commit waits for that of Kafka."""


class Publisher(Protocol):
    """Writes batches in transactions under one transactional id."""

    @property
    def has_hanging(self) -> bool:
        """Whether the watermark was hidden by a hanging transaction, since `open`."""

    def open(self) -> None:
        """Fence every earlier owner of the id and end its open transaction; may be repeated.

        Raises BrokerUnreachableError, TopicRefusedError, ProviderUnusableError.
        """

    def cluster(self) -> str:
        """The cluster's own id, "" where it tells none. Raises BrokerUnreachableError."""

    def watermark(self) -> str | None:
        """Read what the last committed transaction left: a batch's id, "" for none yet.

        None when nothing was ever left, or Kafka has forgotten it. Waits for an open
        transaction to be decided. Raises BrokerUnreachableError.
        """

    def ailing(self, topics: Collection[str]) -> Mapping[str, str]:
        """Why some of these topics cannot be written now, by topic; needs no `open`.

        Raises BrokerUnreachableError, ProviderUnusableError.
        """

    def abort_hanging(self, topics: Collection[str]) -> None:
        """Abort what hangs in these topics of this id's earlier owners.

        Raises BrokerUnreachableError, FencedError.
        """

    def there(self, rows: Sequence[OutgoingRow], since_ms: int) -> set[int]:
        """The ids of those rows that are in Kafka for all to read, written at `since_ms` or later.

        Raises BrokerUnreachableError, also while somebody else's open transaction hides whether
        they are, and ProviderUnusableError.
        """

    def write_watermark(self, text: str) -> None:
        """Leave `text` in a transaction of its own. Raises BrokerUnreachableError, FencedError."""

    def publish(
        self,
        batch: UUID | Branch,
        rows: Sequence[OutgoingRow],
        stamp: Callable[[], None],
        observer: RelayObserver,
        prepare: Callable[[], None] = nothing_to_prepare,
    ) -> Verdict:
        """Write all rows and the batch's id in one transaction, or nothing.

        `stamp` is called once all rows are handed over, before anything of them can be seen; not
        at all where one is refused before. `prepare` is called when everything is confirmed and
        only the commit is left. Raises what they raise, and FencedError when another process has
        opened the same id since; what the transaction had is thrown away as the id is opened again.
        """

    def close(self) -> None:
        """Leave without committing anything; may be called twice."""


class Outbox(Protocol):
    """The rows of one shard, under one ownership. Every method raises RelayLostError."""

    @property
    def held(self) -> Share:
        """The topics whose rows these are, as the lease says; no other shard holds any of them."""

    def give_up(self, kept: Share) -> None:
        """Hold no more than `kept`, which is part of what is held. Nothing may be stamped."""

    def take(self, share: Share) -> bool:
        """Hold `share` from now on, if no other shard holds any of it; return whether it does."""

    def has_due(self, left_out: Collection[str] = ()) -> bool:
        """Return whether anything could be sent now. Writes nothing, so it may be asked often.

        What goes to the topics in `left_out` does not count.
        """

    def due(
        self, *, rows: int, size_bytes: int, left_out: Collection[str] = ()
    ) -> Sequence[OutgoingRow]:
        """Due rows in id order, at least one whatever its size; empty where nothing is due.

        None of them is of a batch that is being marked, or goes to a topic in `left_out`.
        """

    def stamp(self, batch: UUID, rows: Sequence[OutgoingRow]) -> None:
        """Give these rows to `batch`. The one before has to be marked: only one is remembered."""

    def stamped(self) -> tuple[UUID, int] | None:
        """The batch that was left stamped, and how many rows it has."""

    def mark_published(self, batch: UUID, count: int) -> None:
        """Begin to note that all `count` rows of the batch are in Kafka."""

    def await_marked(self) -> None:
        """Wait until that is noted."""

    def unstamp(self, batch: UUID, count: int) -> None:
        """Give all `count` rows of the batch back, to be sent in another one."""

    def bury(self, batch: UUID, *, code: str, text: str) -> None:
        """Make the one row of `batch` DEAD; a retry marker's failure goes on without it."""

    def is_in_doubt(self) -> bool:
        """Return whether a person's word is awaited: on the stamped batch, or after a restore."""

    def watermark(self) -> str | None:
        """The last batch known to be in Kafka, "" for none yet; None while nothing was noted."""

    def watermark_before(self) -> str:
        """The batch that was the last one before that; "" where none is known."""

    def cluster(self) -> str:
        """The id of the cluster that has that batch; "" where none was noted."""

    def provider_as_of(self) -> str:
        """What the provider was when that cluster was noted; "" where that was not."""

    def note_cluster(self, name: str, *, as_of: str) -> None:
        """Note the cluster that the next batches go to, once all before them is accounted for.

        "" where it tells no id: the one before must not pass for it. `as_of` is what the provider
        is that names it.
        """

    def topics_at_stake(self) -> set[str]:
        """The topics of the last batch known to be in Kafka, and of the stamped one."""

    def last_sent(self) -> tuple[Sequence[OutgoingRow], int]:
        """The rows of the last batch known to be in Kafka, and when they were, as Unix time in ms.

        Those that were cleaned up since are missing.
        """

    def send_again(self, ids: Sequence[int]) -> None:
        """Take these rows of that batch for not sent: they are due once more."""

    def note_watermark(self, text: str) -> None:
        """Note what Kafka has as the last batch, so that a later look can be compared with it."""

    def note_trouble(self, text: str) -> None:
        """Note why the relay waits for Kafka or what it leaves out, for people; "" = neither."""

    def went_back(self, text: str) -> None:
        """Note that Kafka has a batch which these rows never were in: people have to decide.

        They are told `text`.
        """

    def doubt(self, batch: UUID, text: str) -> None:
        """Note that a person has to say what became of the stamped batch."""


class Tenure(Protocol):
    """The ownership of one shard, from taking it to `close`."""

    @property
    def outbox(self) -> Outbox:
        """The shard's rows; whatever is written through it counts only while this lasts."""

    @property
    def share(self) -> Share:
        """What the shard is to hold, by the number of shards that people want. Asks nobody."""

    @property
    def provider_as_of(self) -> str:
        """Another text once people have changed the provider, a second later at most.

        Asks nobody.
        """

    def provider_now(self) -> str:
        """The same, but as of now: asks the database. Raises RelayLostError."""

    def sign(self) -> None:
        """Show progress. Raises RelayLostError when the shard is somebody else's."""

    def close(self) -> None:
        """Free the shard."""
