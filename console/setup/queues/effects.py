"""What a queue's form would come to, shown beside its fields before anything is saved."""

from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import ValidationError

from console.setup.queues import outbound
from console.setup.queues.form import FOREIGN_TOPIC, QueueForm
from integration import registration
from integration.counting import so_many
from integration.durations import written
from integration.errors import IntegrationError
from integration.kafka.errors import TopicUnknownError
from integration.models import Queue
from integration.selectors.setup.retry_line import RetryLine, retry_line
from integration.selectors.setup.topic_fit import TopicFit, topic_fit

RETRY_FIELDS: Final = frozenset(
    {
        "max_retries",
        "backoff",
        "retry_delay_seconds",
        "retry_factor",
        "retry_delays_seconds",
        "retry_cap_seconds",
        "retry_jitter",
        "retry_total_seconds",
    }
)
# Parts that can be told only by the cluster.
ASKING: Final = frozenset({"topic", "start"})
UNNAMED: Final = (
    "What is known of the topic is shown here as soon as its provider and name are given."
)


@dataclass(frozen=True, slots=True)
class StartOption:
    """One choice of the first position, with what it reads and skips, or why it cannot be."""

    label: str
    reads: int
    skips: int
    problem: str
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What each part of the form comes to; None where it cannot be told yet.

    `topic_words` and `start_words` stand where there is nothing to list; `problem` is why the
    broker could not be asked.
    """

    retry: RetryLine | None = None
    is_sequential: bool = False
    keeps_keys: bool = False
    delivery: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    topic: TopicFit | None = None
    topic_words: str = ""
    starts: tuple[StartOption, ...] = ()
    start_words: str = ""
    problem: str = ""
    failures: tuple[str, ...] = ()


def effects_of(form: QueueForm, *, asks_broker: bool) -> Effects:
    """Look at the form's instance as far as it could be read; asks the broker only if told to."""
    queue = form.instance
    values: dict[str, Any] = {
        "retry": None if RETRY_FIELDS & set(form.errors) else retry_line(queue.retry_policy()),
        "is_sequential": queue.kind == Queue.Kind.SEQUENTIAL,
        "failures": tuple(_failures(form)),
    }
    if form.is_outbound:
        known = {"was_delivered": form.was_delivered, "by_target": form.by_target}
        told = outbound.delivery_words(queue, **known, goes_on=form.goes_on)
        values["keeps_keys"] = queue.ordering == Queue.Ordering.KEY
        values["delivery"] = tuple(told)
        values["order"] = tuple(outbound.order_words(queue))
    if not (queue.topic and queue.provider_id):
        values["topic_words"] = UNNAMED
    elif form.is_foreign:
        values["problem"] = FOREIGN_TOPIC
    elif asks_broker:
        values |= _asked(form)
    return Effects(**values)


def _asked(form: QueueForm) -> dict[str, Any]:
    queue = form.instance
    creates = form.is_bound and form.creates_topic
    try:
        fit = topic_fit(queue)
    except TopicUnknownError as absent:
        return _of_new_topic(form) if creates else {"problem": str(absent)}
    except IntegrationError as problem:
        return {"problem": str(problem)}
    if creates:
        words = f"{queue.topic} exists already: adopt it, or choose another name."
        # Whoever is limited learns no more of it than that.
        return {"problem": words} | ({"topic": fit} if form.scope.is_whole else {})
    return {"topic": fit, **_starts(form)}


def _of_new_topic(form: QueueForm) -> dict[str, Any]:
    count = form.cleaned_data.get("partitions") or 1
    parts = so_many(count, "partition")
    kept = written(form.instance.retention_seconds)
    return {
        "topic_words": f"{form.instance.topic} will be created with {parts}, the broker's own "
        f"replication and min.insync.replicas, and keeps its messages for {kept}.",
        "start_words": "The topic is new and empty: it is read from its beginning, and nothing "
        "is skipped.",
    }


def _starts(form: QueueForm) -> dict[str, Any]:
    if "start_from" not in form.fields or (form.is_outbound and not form.delivers):
        return {}
    queue = form.instance
    try:
        found = registration.preview_start(queue)
    except (IntegrationError, ValidationError) as problem:
        return {"start_words": str(problem)}
    labels = dict(Queue.StartFrom.choices)
    starts = tuple(
        StartOption(
            label=labels[choice.start_from],
            reads=choice.reads,
            skips=choice.skips,
            problem=choice.problem,
            is_chosen=choice.start_from == queue.start_from,
        )
        for choice in found
    )
    return {"starts": starts}


def _failures(form: QueueForm) -> list[str]:
    queue = form.instance
    if not form.is_bound or (form.is_outbound and not form.delivers):
        return []
    found = []
    errors = form.making.error_queue
    if errors is not None and queue.name and queue.topic:
        held = (
            "one held message stops the ones behind it"
            if errors.strict_order
            else ("each message can be released on its own")
        )
        found.append(
            f"Creates the error queue {errors.name} on the new topic {errors.topic}, with its own "
            f"cron instance; {held}."
        )
    if queue.unlimited_retries and queue.error_queue_id is not None:
        found.append("With retries without end nothing ever reaches the error queue.")
    if queue.brake_after:
        stops = "Sending stops" if form.is_outbound else "Reading stops"
        in_a_row = so_many(queue.brake_after, "failure")
        found.append(
            f"{stops}, and you are told why, after {in_a_row} of one cause in a row, or with "
            f"{so_many(queue.max_open_errors, 'open failure')}."
        )
    return found
