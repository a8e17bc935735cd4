"""The rules that a queue meets when it is saved, and its first position: resolved once."""

import re
from dataclasses import dataclass
from typing import Final

from django.core.exceptions import ValidationError
from django.db import transaction

from integration.amqp.positions import facts_of, identity
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.kafka.errors import TopicUnknownError
from integration.kafka.watermark import RELAY_TOPIC
from integration.models import Queue, QueuePartition
from integration.policy.states import OPEN
from integration.store.positions import store_positions
from integration.store.sessions import alias
from integration.values import TopicFacts

Mistakes = dict[str, list[str]]

# A change of one of these is judged by what the broker says; the others can be saved without it.
BY_THE_TOPIC: Final = (
    *("provider_id", "topic", "direction", "kind", "carrier", "retention_seconds"),
    *("order_path", "strict_order"),
)
IMMUTABLE: Final = ("provider", "topic", "kind", "direction", "subscription")
TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
STAYS: Final = (
    "This cannot change while the queue has a position or open failures. Make a new queue instead."
)
NAME_STAYS: Final = (
    "The JMS broker knows who reads this queue by its name: under another one a durable "
    "subscription begins anew, and a second reader may get in. Make a new queue instead."
)
SELECTOR_STAYS: Final = (
    "Under another selector the broker makes the durable subscription anew, without the messages "
    "that wait in it. Have the senders stop, let this queue drain, delete it, and its subscription "
    "at the broker. Then make a new queue with that selector, and run it once before they send "
    "again: beside each other, both queues would apply what meets both selectors."
)


class StartGroupError(IntegrationError):
    """The position of the consumer group that a queue is to begin at cannot be taken over."""


class NoGroupPositionError(StartGroupError):
    """The group never committed a position on the topic, or its positions have expired."""

    code = "GROUP_NO_POSITION"

    def __init__(self, group: str, topic: str) -> None:
        super().__init__(
            f"The consumer group {group} has no position on {topic}.",
            next_step="Correct the group's name, let its application commit a position, or choose "
            "another start for the queue.",
        )


class GroupBeyondEndError(StartGroupError):
    """The group stands behind the end of a partition: what it read is not this topic."""

    code = "GROUP_BEYOND_END"

    def __init__(self, group: str, *, partition: int, offset: int, end: int) -> None:
        super().__init__(
            f"The consumer group {group} stands at {offset} of partition {partition}, beyond its "
            f"end {end}: the topic was probably made anew since.",
            next_step="Choose another start for the queue.",
        )


@dataclass(frozen=True, slots=True)
class StartChoice:
    """The consequence of one choice of the first position: messages read and skipped (at most).

    `problem` is a sentence where it cannot be chosen; it reads and skips nothing then.
    """

    start_from: Queue.StartFrom
    reads: int = 0
    skips: int = 0
    problem: str = ""


def check(queue: Queue, *, has_topic: bool = True) -> None:
    """Judge a queue that is about to be saved.

    Raises ValidationError with every mistake at its field. Asks the broker only when a field
    changed that the topic has a say in, so that other changes can be saved while it is down.
    Without `has_topic` the topic is still to be made, and nobody is asked about it.
    """
    stored = Queue.objects.using(alias()).filter(pk=queue.pk).first()
    # Each judges fields of its own, but for the topic.
    mistakes = _start(queue) | _error_queue(queue) | _unchangeable(queue, stored)
    if hasattr(queue, "provider") and queue.provider.is_jms:
        has_topic = False
        if queue.start_from not in {"", Queue.StartFrom.BEGINNING}:
            mistakes["start_from"] = ["A JMS broker gives what waits there: choose the oldest."]
    for field, sentences in _internal(queue).items():
        mistakes.setdefault(field, []).extend(sentences)
    if not mistakes and has_topic and _topic_matters(queue, stored):
        mistakes = _topic(queue)
    if mistakes:
        raise ValidationError(mistakes)


def _start(queue: Queue) -> Mistakes:
    """The first position is chosen by a person, without a default."""
    if not queue.start_from:
        return {"start_from": ["Choose where reading begins; it is decided only once."]}
    if queue.start_from == Queue.StartFrom.TIME and queue.start_time is None:
        return {"start_time": ["Say since when messages are to be read."]}
    if queue.start_from == Queue.StartFrom.GROUP and not queue.start_group:
        return {"start_group": ["Name the consumer group whose position is to be taken over."]}
    return {}


def _internal(queue: Queue) -> Mistakes:
    sentences = topic_name_mistakes(queue.topic)
    if not sentences and hasattr(queue, "provider") and not queue.provider.is_jms:
        sentences = _unwritable(queue.topic)
    return {"topic": sentences} if sentences else {}


def _unwritable(topic: str) -> list[str]:
    """Kafka makes no topic of such a name: see org.apache.kafka.common.internals.Topic."""
    if not topic or (TOPIC_NAME.fullmatch(topic) and topic not in {".", ".."}):
        return []
    why = f"“{topic}” cannot be a topic: names have letters of ASCII, digits, dot, - and _ alone."
    return [f"{why} What begins with jms/ is a name of JNDI." if topic.startswith("jms/") else why]


def topic_name_mistakes(topic: str) -> list[str]:
    """Kafka's own topics, and the relay's, hold no messages of anybody's."""
    if not (topic.startswith("__") or topic == RELAY_TOPIC):
        return []
    whose = "Sluice's relay" if topic == RELAY_TOPIC else "Kafka"
    return [f"{topic} is internal to {whose}: choose another topic."]


def _error_queue(queue: Queue) -> Mistakes:
    """Failures go to an inbound sequential error queue, and never round in a circle."""
    mistakes: Mistakes = {}
    if queue.is_error_queue and not _takes_failures(queue):
        mistakes["is_error_queue"] = ["An error queue must be inbound and sequential."]
    if queue.strict_order and not queue.is_error_queue:
        mistakes["strict_order"] = ["Only an error queue can keep this order."]
    if queue.pk and not queue.is_error_queue:
        fed = list(queue.feeding_queues.values_list("name", flat=True)[:5])
        if fed:
            sentence = f"{', '.join(fed)} sends its failures here: give it another queue first."
            mistakes["is_error_queue"] = [sentence]
    target = queue.error_queue
    if target is None:
        return mistakes
    if _leads_back(queue):
        mistakes["error_queue"] = ["Failures would go round in a circle: choose another queue."]
    elif not (target.is_error_queue and _takes_failures(target)):
        mistakes["error_queue"] = [
            (
                f"{target.name} is not an error queue: it must be inbound, sequential and marked "
                "as an error queue."
            )
        ]
    return mistakes


def _takes_failures(queue: Queue) -> bool:
    return queue.direction == Queue.Direction.INBOUND and queue.is_sequential


def _leads_back(queue: Queue) -> bool:
    """Return whether following the error queues from `queue` comes back to it or never ends."""
    seen: set[int | None] = {queue.pk}
    following = queue.error_queue
    while following is not None:
        if following is queue or following.pk in seen:
            return True
        seen.add(following.pk)
        following = following.error_queue
    return False


def _unchangeable(queue: Queue, stored: Queue | None) -> Mistakes:
    """What positions, open failures or a subscription of the broker refer to stays."""
    if stored is None:
        return {}
    return {
        field: [why]
        for field, why in staying(stored).items()
        if queue.serializable_value(field) != stored.serializable_value(field)
    }


def staying(queue: Queue) -> dict[str, str]:
    """Return which fields of a stored queue cannot change any more, each with the reason."""
    has_position = queue.partitions.exists()
    kept = dict.fromkeys(IMMUTABLE, STAYS) if has_position or _has_open_errors(queue) else {}
    if has_position and queue.provider.is_jms:
        kept["name"] = NAME_STAYS
    if has_position and queue.subscription:
        kept["selector"] = SELECTOR_STAYS
    return kept


def _has_open_errors(queue: Queue) -> bool:
    return queue.errors.filter(state__in=[state.value for state in OPEN]).exists()


def _topic_matters(queue: Queue, stored: Queue | None) -> bool:
    if not queue.topic or not hasattr(queue, "provider"):
        # Django's own check of required fields names them.
        return False
    return stored is None or any(getattr(queue, f) != getattr(stored, f) for f in BY_THE_TOPIC)


def _topic(queue: Queue) -> Mistakes:
    """Compare the queue with its topic as the broker describes it, and remember what it takes."""
    try:
        topic = admin.describe(queue.provider, queue.topic)
    except TopicUnknownError as e:
        return {"topic": [str(e)]}
    except IntegrationError as e:
        return {"provider": [str(e)]}
    queue.topic_max_bytes = topic.max_message_bytes
    return topic_mistakes(queue, topic)


def order_mistakes(queue: Queue, partitions: int) -> Mistakes:
    """Tell, by field, why the queue cannot keep its order in a topic of several partitions."""
    here = f"{queue.topic} has {partitions} partitions"
    if queue.keeps_order:
        why = f"{here}, and there is no order between them: choose continuous, or a topic with one."
        return {"kind": [why]}
    if queue.needs_one_partition:
        why = (
            f"{here}, and messages of one document's key may lie in several: leave the path out to "
            "use the record's key, or choose a topic with one partition."
        )
        return {"order_path": [why]}
    return {}


def topic_mistakes(queue: Queue, topic: admin.TopicDescription) -> Mistakes:
    """Tell what of the queue does not fit its topic, by field."""
    mistakes: Mistakes = {}
    if topic.partitions > 1:
        mistakes |= order_mistakes(queue, topic.partitions)
    if _needs_row_carrier(queue, topic):
        why = "is compacted" if topic.is_compacted else "cannot be written by our user"
        mistakes["carrier"] = [
            f"{topic.name} {why}, so that retries cannot be put at its end: choose the row."
        ]
    if topic.deletes_old and topic.retention_ms is not None:
        seconds = topic.retention_ms // 1_000
        if queue.retention_seconds != seconds:
            mistakes["retention_seconds"] = [
                f"{topic.name} keeps its messages for {seconds} seconds; write the same here."
            ]
    return mistakes


def _needs_row_carrier(queue: Queue, topic: admin.TopicDescription) -> bool:
    uses_retry_markers = (
        queue.kind == Queue.Kind.CONTINUOUS
        and queue.direction == Queue.Direction.INBOUND
        and queue.carrier == Queue.Carrier.TOPIC
    )
    return uses_retry_markers and (topic.is_compacted or topic.may_write is False)


def preview_start(queue: Queue) -> list[StartChoice]:
    """Tell what each possible choice would read and skip.

    Times and groups are shown only when the queue names one. Raises IntegrationError when the
    broker or the topic cannot be asked.
    """
    facts = _facts(queue)
    choices = [Queue.StartFrom.BEGINNING, Queue.StartFrom.END]
    if queue.start_time is not None:
        choices.append(Queue.StartFrom.TIME)
    if queue.start_group:
        choices.append(Queue.StartFrom.GROUP)
    return [_previewed(queue, choice, facts) for choice in choices]


def _previewed(queue: Queue, choice: Queue.StartFrom, facts: TopicFacts) -> StartChoice:
    try:
        offsets = _resolve(queue, choice, facts)
    except ValidationError as mistake:
        return StartChoice(choice, problem=" ".join(mistake.messages))
    return StartChoice(
        choice,
        reads=sum(max(0, facts.high[p] - offset) for p, offset in offsets.items()),
        skips=sum(max(0, offset - facts.low[p]) for p, offset in offsets.items()),
    )


def register(queue: Queue) -> list[QueuePartition]:
    """Store the first position of every partition; a queue that has positions keeps them.

    Raises ValidationError when the start cannot be resolved, IntegrationError when the broker
    or the topic cannot be asked.
    """
    with transaction.atomic(using=alias()):
        # Two people who save at once must not both resolve.
        Queue.objects.using(alias()).select_for_update().get(pk=queue.pk)
        present = list(queue.partitions.all())
        if present:
            return present
        facts = _facts(queue)
        _check_partitions(queue, facts)
        return store_positions(
            queue, facts, _resolve(queue, Queue.StartFrom(queue.start_from), facts)
        )


def _facts(queue: Queue) -> TopicFacts:
    if queue.provider.is_jms:
        return facts_of(identity(queue))
    facts = admin.topic_facts(queue.provider, queue.topic)
    if facts is None:
        raise TopicUnknownError(queue.provider.name, queue.topic)
    return facts


def _check_partitions(queue: Queue, facts: TopicFacts) -> None:
    if facts.partitions > 1 and (mistakes := order_mistakes(queue, facts.partitions)):
        raise ValidationError(mistakes)


def _resolve(queue: Queue, choice: Queue.StartFrom, facts: TopicFacts) -> dict[int, int]:
    match choice:
        case Queue.StartFrom.BEGINNING:
            return dict(facts.low)
        case Queue.StartFrom.END:
            return dict(facts.high)
        case Queue.StartFrom.TIME:
            if queue.start_time is None:
                raise ValidationError(dict(_start(queue)))
            return admin.offsets_at(queue.provider, facts, queue.topic, queue.start_time)
        case Queue.StartFrom.GROUP:
            try:
                return _where_group_stands(queue, facts)
            except StartGroupError as e:
                problem = ValidationError(f"{e} ({e.code})", code=e.code)
                raise ValidationError({"start_group": problem}) from e


def check_group(queue: Queue) -> None:
    """Look whether the queue can begin where its `start_group` stands.

    Raises StartGroupError when it cannot, another IntegrationError when the broker or the topic
    cannot be asked.
    """
    _where_group_stands(queue, _facts(queue))


def _where_group_stands(queue: Queue, facts: TopicFacts) -> dict[int, int]:
    """The group's offsets; a partition it never read is read from its beginning.

    Raises StartGroupError, and what the broker's answer raises.
    """
    group = queue.start_group
    offsets = admin.group_offsets(queue.provider, group, queue.topic, facts.low)
    if not offsets:
        raise NoGroupPositionError(group, queue.topic)
    for partition, offset in offsets.items():
        if offset > facts.high[partition]:
            raise GroupBeyondEndError(
                group, partition=partition, offset=offset, end=facts.high[partition]
            )
    return {partition: offsets.get(partition, low) for partition, low in facts.low.items()}
