"""The reach of a planned operation, its first payload, and the changes that an edit makes."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from integration.documents.layout import Line, differences
from integration.models import MessageError, Operation, OperationItem, Queue, QueuePartition
from integration.policy.moves import EDIT, RELEASE, VERBS
from integration.policy.operations import ItemOutcome, Seen, verdict
from integration.policy.states import ErrorState, PartitionState
from integration.recipe_rules import away_in, rules_now, schemas_of, subject_of
from integration.recipe_use import Changed, use
from integration.recipes import compile_recipe
from integration.registries.reading import reading_of
from integration.selectors.failures.payloads import PayloadView, show
from integration.selectors.failures.rows import FailureRow, rows_of
from integration.selectors.masking.covers import covers_of
from integration.selectors.masking.documents import masked_text
from integration.selectors.masking.rules import masked_queues, masks
from integration.selectors.operations.operations import Cause, told
from integration.store import operations as store
from integration.store.operations import IS_LATE, WITH_PLACE
from integration.store.sessions import fetch_all

Key = TypeVar("Key", bound=Hashable)

SAMPLES: Final = 5
CAUSES: Final = 10
# Of a diff, and of the first payload about a screen: the failure's own page has the rest.
SHOWN_LINES: Final = 60
SHOWN_CHARACTERS: Final = 4_000
# Ages by their upper bound in hours, and those beyond the last one.
AGES: Final = (
    (1, "within the last hour"),
    (24, "within a day"),
    (168, "within a week"),
    (720, "within 30 days"),
)
OLD: Final = "older than 30 days"
AWAY: Final = "It cannot be shown now."
UNCOMPARED: Final = (
    "The two texts differ in too many places, or repeat the same lines too often, to be compared "
    "here. The dry run judged the message all the same."
)
_AGE: Final = " ".join(
    f"WHEN e.first_failed_at > clock_timestamp() - interval '{hours} hours' THEN '{name}'"
    for hours, name in AGES
)
_GROUPS: Final = f"""
SELECT e.queue_id, e.state, e.code, e.fingerprint, CASE {_AGE} ELSE '{OLD}' END,
    i.version, e.version = i.version, {IS_LATE},
    count(*), min(e.first_failed_at), max(e.last_failed_at), min(e.text)
FROM integration_operationitem i JOIN integration_messageerror e ON e.id = i.error_id {WITH_PLACE}
WHERE i.operation_id = %s GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
"""


class QueueShare(NamedTuple):
    """The messages of one queue, and what keeps it from taking them now."""

    queue: str
    system: str
    messages: int
    trouble: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Blast:
    """The effect that the operation would have if it began now.

    `ages` and `states` are how many messages there are of each; states with what becomes of those.
    """

    fit: int
    late: int
    gone: int
    oldest: datetime | None
    newest: datetime | None
    queues: list[QueueShare]
    causes: list[Cause]
    ages: list[tuple[str, int]]
    states: list[tuple[str, int, ItemOutcome]]
    samples: list[FailureRow]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class FirstPayload:
    """The payload of the first message as it is now, edited or not; `text` is its beginning."""

    sample: FailureRow
    view: PayloadView

    @property
    def text(self) -> str:
        return (self.view.pretty or self.view.raw)[:SHOWN_CHARACTERS]

    @property
    def is_hex(self) -> bool:
        return self.view.is_hex and not self.view.pretty

    @property
    def is_cut(self) -> bool:
        return self.view.is_cut or len(self.view.pretty or self.view.raw) > SHOWN_CHARACTERS


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes that an edit makes in one message; `lacks` says why they are not shown."""

    error: UUID
    number: int
    lines: Sequence[Line]
    is_cut: bool
    lacks: str = ""


class _Group(NamedTuple):
    queue: int
    state: ErrorState
    code: str
    fingerprint: str
    age: str
    version: int
    is_as_seen: bool
    is_late: bool
    messages: int
    oldest: datetime
    newest: datetime
    text: str


def blast(operation: Operation) -> Blast:
    """Four queries, of which one goes through the whole selection."""
    groups = [_Group(*row) for row in fetch_all(_GROUPS, [operation.pk])]
    states = _counted(groups, lambda one: (one.state, _outcome(one, operation.verb)))
    causes = _counted(groups, lambda one: (one.code, one.fingerprint))
    texts = {(one.code, one.fingerprint): one.text for one in groups}
    ages = _counted(groups, lambda one: one.age)
    queues = _by_queue(groups)
    releases = operation.verb in {RELEASE.action, EDIT.action}
    fit = [one for one in groups if _outcome(one, operation.verb) is ItemOutcome.DONE]
    first = MessageError.objects.filter(operations__operation=operation)
    return Blast(
        fit=sum(one.messages for one in fit),
        late=sum(one.messages for one in fit if one.is_late) if releases else 0,
        gone=operation.total - sum(one.messages for one in groups),
        oldest=min((one.oldest for one in groups), default=None),
        newest=max((one.newest for one in groups), default=None),
        queues=queues,
        causes=told(
            operation,
            [Cause(*key, texts[key], count) for key, count in causes.most_common(CAUSES)],
        ),
        ages=[(name, ages[name]) for _, name in (*AGES, (0, OLD)) if ages[name]],
        states=[(state, count, outcome) for (state, outcome), count in states.most_common()],
        samples=rows_of(first.order_by("operations__place"), SAMPLES),
        warnings=_warnings(ages[OLD], len(causes), queues if releases else []),
    )


def _counted(groups: Iterable[_Group], key: Callable[[_Group], Key]) -> Counter[Key]:
    counted: Counter[Key] = Counter()
    for group in groups:
        counted[key(group)] += group.messages
    return counted


def _outcome(group: _Group, verb: str) -> ItemOutcome:
    """The outcome of a group; late ones are not skipped: they need a confirmation of their own."""
    version = group.version if group.is_as_seen else group.version + 1
    seen = Seen(version, ErrorState(group.state), late=False)
    return verdict(seen, group.version, expected=VERBS[verb].expected, late_allowed=True)


def _warnings(old: int, causes: int, queues: Sequence[QueueShare]) -> list[str]:
    warnings = []
    if old:
        warnings.append(f"{old:,} {'is' if old == 1 else 'are'} older than 30 days.")
    if causes > 1:
        warnings.append(f"They failed for {causes:,} different causes.")
    return warnings + [f"{one.queue}: {one.trouble}" for one in queues if one.trouble]


def _by_queue(groups: Iterable[_Group]) -> list[QueueShare]:
    counted = _counted(groups, lambda one: one.queue)
    queues = Queue.objects.select_related("system").in_bulk(list(counted))
    stuck = QueuePartition.objects.filter(
        queue__in=list(counted), state__in=[PartitionState.BLOCKED, PartitionState.BRAKED]
    )
    states = {place.queue_id: place.state for place in stuck}
    return [
        QueueShare(
            queues[id_].name,
            "" if (system := queues[id_].system) is None else system.name,
            count,
            _trouble(queues[id_], states.get(id_)),
        )
        for id_, count in counted.most_common()
    ]


def _trouble(queue: Queue, state: str | None) -> str:
    if not queue.enabled:
        return "it is switched off; nothing that is released there is tried until it is on again."
    if queue.paused:
        return "it is paused; nothing that is released there is tried until it is resumed."
    if queue.system is not None and not queue.system.enabled:
        return f"its external system {queue.system.name} is switched off; they would be held again."
    if state is None:
        return ""
    if state == PartitionState.BRAKED:
        return "too many failures: released messages are tried, new ones are not read."
    return "it is blocked at this moment."


def first_payload(samples: Sequence[FailureRow]) -> FirstPayload | None:
    """The first message that people are about to release, edit or delete; None where it is gone."""
    content = store.contents([samples[0].id]).get(samples[0].id) if samples else None
    if content is None:
        return None
    subject = subject_of(content)
    queue = Queue.objects.select_related("provider").get(pk=content.queue_id)
    mask = masks().of_queue(queue, content.interface)
    view = show(subject.record, subject.headers, reading_of(queue), mask=mask)
    return FirstPayload(samples[0], view)


def diffs(operation: Operation, places: Sequence[int]) -> list[Diff]:
    """The diffs of these items, computed anew: no text of a payload is stored with an operation."""
    recipe, rules = compile_recipe(operation.recipe), rules_now(masked_queues())
    rows = OperationItem.objects.filter(operation=operation, place__in=places).order_by("place")
    items = {item.error_id: item.place for item in rows}
    contents = store.contents(list(items))
    schemas = schemas_of((one.queue_id, one.record) for one in contents.values())
    away, shown, found = away_in(schemas), [], covers_of(items)
    for id_, place in items.items():
        if away is not None:
            lacks = f"{AWAY} {away.code}: {away.text}"
            shown.append(Diff(id_, place + 1, [], is_cut=False, lacks=lacks))
            continue
        made = use(recipe, subject_of(contents[id_], schemas), rules) if id_ in contents else None
        if isinstance(made, Changed):
            texts = [made.before, made.after]
            if id_ in found:
                cover = found[id_]
                is_wrapped = contents[id_].queue_id in rules.wrapped
                mask = cover.mask.in_wrapper if is_wrapped else cover.mask
                masked = [masked_text(text, mask) for text in texts]
                if None in masked:
                    continue
                # A value that the edit puts elsewhere is hidden there, too.
                texts = [cover.text(text or "") for text in masked]
            shown.append(_compared(id_, place + 1, *texts))
    return shown


def _compared(error: UUID, number: int, before: str, after: str) -> Diff:
    changes = differences(before, after)
    if changes is None:
        return Diff(error, number, [], is_cut=False, lacks=UNCOMPARED)
    return Diff(error, number, changes[:SHOWN_LINES], len(changes) > SHOWN_LINES)
