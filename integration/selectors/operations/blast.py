"""What a planned operation would touch, before it runs: by queue, cause, age and state."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from integration.models import Operation, Queue, QueuePartition
from integration.policy.moves import VERBS
from integration.policy.operations import ItemOutcome, Seen, verdict
from integration.policy.states import ErrorState, PartitionState
from integration.selectors.failures.lines import KEY_BYTES, key_text
from integration.store.operations import IS_LATE, WITH_PLACE
from integration.store.sessions import fetch_all

SAMPLES: Final = 5
CAUSES: Final = 10
# Upper bounds in hours of the ages told; the last one has none.
AGES: Final = ((1, "within the last hour"), (24, "within a day"), (168, "within a week"))
OLD_HOURS: Final = 720
_OLDER: Final = ((OLD_HOURS, "within 30 days"), (None, "older than 30 days"))

_GROUPS: Final = f"""
SELECT e.queue_id, e.state, e.code, e.fingerprint,
    CASE {{ages}} ELSE {len(AGES) + 1} END,
    i.version, e.version = i.version, {IS_LATE},
    count(*), min(e.first_failed_at), max(e.last_failed_at), min(e.text)
FROM integration_operationitem i JOIN integration_messageerror e ON e.id = i.error_id {WITH_PLACE}
WHERE i.operation_id = %s GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
"""
_SAMPLES: Final = f"""
SELECT e.id, e.interface, e.message_id, q.name, e.code, e.text, e.state, e.last_failed_at,
  substring(e.key from 1 for {KEY_BYTES})
FROM integration_operationitem i JOIN integration_messageerror e ON e.id = i.error_id
JOIN integration_queue q ON q.id = e.queue_id
WHERE i.operation_id = %s ORDER BY i.place LIMIT %s
"""


class Share(NamedTuple):
    """A part of the selection."""

    name: str
    messages: int


class CauseShare(NamedTuple):
    """The messages of one cause."""

    code: str
    fingerprint: str
    text: str
    messages: int


class QueueShare(NamedTuple):
    """The messages of one queue, and what keeps it from taking them now."""

    queue: str
    system: str
    messages: int
    trouble: str


class StateShare(NamedTuple):
    """The messages in one state, and what the verb makes of them: an ItemOutcome."""

    state: str
    messages: int
    outcome: ItemOutcome


class Sample(NamedTuple):
    """One of the messages, the first ones to have their turn."""

    id: UUID
    interface: str
    message_id: str
    queue: str
    code: str
    text: str
    state: str
    last_failed_at: datetime
    key_start: bytes | None

    @property
    def key(self) -> str:
        """Of the payload: pages show it by the right to see those."""
        return key_text(self.key_start)


@dataclass(slots=True)
class Blast:
    """What would happen if the operation began now."""

    total: int
    fit: int = 0
    late: int = 0
    gone: int = 0
    old: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    queues: list[QueueShare] = field(default_factory=list)
    causes: list[CauseShare] = field(default_factory=list)
    cause_count: int = 0
    ages: list[Share] = field(default_factory=list)
    states: list[StateShare] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    releases: bool = False

    @property
    def skipped(self) -> int:
        return self.total - self.fit

    @property
    def warnings(self) -> list[str]:
        said = []
        if self.old:
            verb = "is" if self.old == 1 else "are"
            said.append(f"{self.old:,} {verb} older than 30 days.")
        if self.cause_count > 1:
            said.append(f"They failed for {self.cause_count:,} different causes.")
        troubled = [one for one in self.queues if one.trouble and self.releases]
        return said + [f"{one.queue}: {one.trouble}" for one in troubled]


class _Group(NamedTuple):
    queue: int
    state: ErrorState
    code: str
    fingerprint: str
    age: int
    version: int
    is_as_seen: bool
    late: bool
    messages: int
    oldest: datetime
    newest: datetime
    text: str


def blast(operation: Operation) -> Blast:
    """Four queries, of which one goes through the whole selection."""
    groups = [_Group(*row) for row in fetch_all(_sql(), [operation.pk])]
    found = Blast(operation.total, releases=_releases(operation))
    found.gone = operation.total - sum(group.messages for group in groups)
    if groups:
        found.oldest = min(group.oldest for group in groups)
        found.newest = max(group.newest for group in groups)
    _by_state(found, operation, groups)
    _by_cause(found, groups)
    _by_age(found, groups)
    found.queues = _by_queue(groups)
    found.samples = [Sample(*row) for row in fetch_all(_SAMPLES, [operation.pk, SAMPLES])]
    return found


def _releases(operation: Operation) -> bool:
    return operation.verb in {"release", "edit"}


def _sql() -> str:
    bounds = [hours for hours, _ in (*AGES, *_OLDER) if hours is not None]
    ages = " ".join(
        f"WHEN e.first_failed_at > clock_timestamp() - interval '{hours} hours' THEN {place}"
        for place, hours in enumerate(bounds)
    )
    return _GROUPS.format(ages=ages)


def _by_state(found: Blast, operation: Operation, groups: Iterable[_Group]) -> None:
    expected = VERBS[operation.verb].expected
    counted: Counter[tuple[str, ItemOutcome]] = Counter()
    for group in groups:
        version = group.version if group.is_as_seen else group.version + 1
        # Late ones need the confirmation that is asked for here: they are told apart, not skipped.
        seen = Seen(version, ErrorState(group.state), late=False)
        outcome = verdict(seen, group.version, expected=expected, late_allowed=True)
        counted[group.state, outcome] += group.messages
        if outcome is ItemOutcome.DONE:
            found.fit += group.messages
            found.late += group.messages if group.late and found.releases else 0
    found.states = [
        StateShare(state, count, outcome) for (state, outcome), count in counted.most_common()
    ]


def _by_cause(found: Blast, groups: Iterable[_Group]) -> None:
    counted: Counter[tuple[str, str]] = Counter()
    texts: dict[tuple[str, str], str] = {}
    for group in groups:
        counted[group.code, group.fingerprint] += group.messages
        texts.setdefault((group.code, group.fingerprint), group.text)
    found.cause_count = len(counted)
    found.causes = [
        CauseShare(*cause, texts[cause], count) for cause, count in counted.most_common(CAUSES)
    ]


def _by_age(found: Blast, groups: Iterable[_Group]) -> None:
    counted: Counter[int] = Counter()
    for group in groups:
        counted[group.age] += group.messages
    names = [name for _, name in (*AGES, *_OLDER)]
    found.ages = [Share(name, counted[place]) for place, name in enumerate(names) if counted[place]]
    found.old = counted[len(names) - 1]


def _by_queue(groups: Iterable[_Group]) -> list[QueueShare]:
    counted: Counter[int] = Counter()
    for group in groups:
        counted[group.queue] += group.messages
    queues = Queue.objects.select_related("system").in_bulk(list(counted))
    stuck = {
        place.queue_id: place
        for place in QueuePartition.objects.filter(
            queue__in=list(counted), state__in=[PartitionState.BLOCKED, PartitionState.BRAKED]
        )
    }
    return [
        QueueShare(
            queues[id_].name,
            "" if (system := queues[id_].system) is None else system.name,
            count,
            _trouble(queues[id_], stuck.get(id_)),
        )
        for id_, count in counted.most_common()
    ]


def _trouble(queue: Queue, place: QueuePartition | None) -> str:
    if not queue.enabled:
        return "it is switched off; nothing that is released there is tried until it is on again."
    if queue.paused:
        return "it is paused; nothing that is released there is tried until it is resumed."
    if queue.system is not None and not queue.system.enabled:
        return f"its external system {queue.system.name} is switched off; they would be held again."
    if place is None:
        return ""
    if place.state == PartitionState.BRAKED:
        return "it is braked; released messages are tried, new ones are not read."
    return "it is blocked at this moment."
