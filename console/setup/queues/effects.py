"""The effects of a queue's form, shown beside its fields before anything is saved."""

from typing import Any, Final

from django.core.exceptions import ValidationError

from console.setup.queues import outbound
from console.setup.queues.fields import PARTS, RETRY
from console.setup.queues.form import FOREIGN_TOPIC, QueueForm
from integration import registration
from integration.counting import so_many
from integration.durations import written
from integration.errors import IntegrationError
from integration.kafka.errors import TopicUnknownError
from integration.models import Queue
from integration.selectors.setup.retry_line import retry_line
from integration.selectors.setup.topic_fit import topic_fit

RETRY_FIELDS: Final = frozenset(PARTS[RETRY][2]) - {"unlimited_retries", "carrier"}
# Parts that only the cluster knows of.
ASKING: Final = frozenset({"topic", "start"})
UNNAMED: Final = "Facts about the topic are shown here once its provider and name are given."


def effects_of(form: QueueForm, *, asks_broker: bool) -> dict[str, Any]:
    """The effect of each part of the form, as far as the form's instance could be read.

    The broker is asked only with `asks_broker`. `topic_words` and `start_words` stand where there
    is nothing to list; `problem` is why the broker could not be asked.
    """
    queue = form.instance
    effects: dict[str, Any] = {
        "retry": None if RETRY_FIELDS & set(form.errors) else retry_line(queue.retry_policy()),
        "failures": _failures(form),
    }
    if form.is_outbound:
        known = {"was_delivered": form.was_delivered, "by_target": form.by_target}
        effects["delivery"] = list(outbound.delivery_words(queue, **known, goes_on=form.goes_on))
        effects["order"] = list(outbound.order_words(queue))
    if not (queue.topic and queue.provider_id):
        return effects | {"topic_words": UNNAMED}
    if queue.provider.is_jms:
        return effects | {"topic_words": FOREIGN_TOPIC if form.is_foreign else jms_words(queue)}
    if form.is_foreign:
        return effects | {"problem": FOREIGN_TOPIC}
    return effects | (_of_topic(form) if asks_broker else {})


def jms_words(queue: Queue) -> str:
    """Tell what is read. The broker would tell only to whom it hands messages out."""
    what = f"the JMS queue {queue.topic}"
    if queue.subscription:
        what = f"the JMS topic {queue.topic} (durable subscription {queue.subscription})"
    chosen = ", as far as they meet the selector," if queue.selector else ""
    return (
        f"The messages of {what}{chosen} are read one after the other, whatever waits there "
        "already. "
        "Each is accepted at the broker once its outcome is stored. Whether the address is there "
        "and may be read, the first run finds out."
    )


def _of_topic(form: QueueForm) -> dict[str, Any]:
    queue = form.instance
    creates = form.is_bound and form.creates_topic
    try:
        fit = topic_fit(queue)
    except TopicUnknownError as absent:
        return _of_new_topic(form) if creates else {"problem": str(absent)}
    except IntegrationError as problem:
        return {"problem": str(problem)}
    if creates:
        words = f"{queue.topic} already exists: adopt it, or choose another name."
        # Whoever is limited learns no more of it than that.
        return {"problem": words} | ({"topic": fit} if form.scope.is_whole else {})
    return {"topic": fit, **_starts(form)}


def _of_new_topic(form: QueueForm) -> dict[str, Any]:
    count = form.cleaned_data.get("partitions") or 1
    parts = so_many(count, "partition")
    kept = written(form.instance.retention_seconds)
    return {
        "topic_words": f"{form.instance.topic} will be created with {parts} and the broker's own "
        f"replication and min.insync.replicas. It keeps its messages for {kept}.",
        "start_words": "The topic is new and empty: it is read from its beginning, and nothing "
        "is skipped.",
    }


def _starts(form: QueueForm) -> dict[str, Any]:
    if "start_from" not in form.fields or (form.is_outbound and not form.delivers):
        return {}
    try:
        return {"starts": registration.preview_start(form.instance)}
    except (IntegrationError, ValidationError) as problem:
        return {"start_words": str(problem)}


def _failures(form: QueueForm) -> list[str]:
    queue = form.instance
    if not form.is_bound or (form.is_outbound and not form.delivers):
        return []
    words = []
    errors = form.making.error_queue
    if errors is not None and queue.name and queue.topic:
        held = (
            "one message on hold stops the ones behind it"
            if errors.strict_order
            else "each message can be released on its own"
        )
        words.append(
            f"Creates the error queue {errors.name} on the new topic {errors.topic}, with its own "
            f"cron instance; {held}."
        )
    if queue.unlimited_retries and queue.error_queue_id is not None:
        words.append("With endless retries, only what no retry could help reaches the error queue.")
    if queue.failure_threshold:
        stops = "Sending stops" if form.is_outbound else "Reading stops"
        in_a_row = so_many(queue.failure_threshold, "failure")
        words.append(
            f"{stops}, with the reason shown, after {in_a_row} of the same cause in a row, or with "
            f"more than {so_many(queue.max_open_errors, 'open failure')}."
        )
    return words
