"""The examination of a provider that somebody tests: the topics of its queues, our ids, groups."""

from dataclasses import replace

from django.conf import settings

from integration.kafka.examination import Examination, Finding
from integration.kafka.rights import Wanted, examine, missing
from integration.kafka.source import consumer_group, group_of
from integration.kafka.watermark import RELAY_TOPIC
from integration.models import Provider, Queue
from integration.runs.relay import transactional_id
from integration.selectors.delivering.senders import sends
from integration.selectors.setup.jms import examined_jms
from integration.selectors.setup.registry import examined_registry


def examined(provider: Provider, topic: str = "") -> Examination:
    """Examine a provider, stored or not, with the topics of its queues and one typed in.

    Of a JMS broker only the way in: what it lets us read is seen when it is read. Takes about five
    seconds where nothing answers. Raises nothing for what is wrong with it.
    """
    if provider.is_jms:
        return examined_jms(provider)
    found = examine(provider, wanted_of(provider, topic.strip()))
    beside = examined_registry(provider)
    return found if beside is None else replace(found, sections=(*found.sections, beside))


def wanted_of(provider: Provider, topic: str = "") -> Wanted:
    """List what our queues do on this cluster; `topic` counts as read and written."""
    queues = [] if not provider.pk else list(provider.queues.order_by("topic"))
    reads = {queue.topic for queue in queues if queue.direction == Queue.Direction.INBOUND}
    writes = {queue.topic for queue in queues if _writes(queue)}
    typed = {topic} if topic else set()
    return Wanted(
        reads=sorted(reads | typed),
        writes=sorted(writes | typed),
        ids=ids_of(provider),
        relay_topic=RELAY_TOPIC,
        lag_groups=consumer_group(""),
        groups=sorted({group_of(queue) for queue in queues if queue.joins_group}),
    )


def missing_rights(queue: Queue) -> list[Finding] | None:
    """What the cluster refuses us of all that this queue needs; each with the command that grants.

    None where it cannot be asked: the provider does not answer, or does not let us in.
    """
    is_read = queue.direction == Queue.Direction.INBOUND or sends(queue)
    return missing(
        queue.provider,
        Wanted(
            reads=[queue.topic] if is_read else [],
            writes=[queue.topic] if _writes(queue) else [],
            ids=ids_of(queue.provider),
            relay_topic=RELAY_TOPIC,
            lag_groups=consumer_group(""),
            groups=[group_of(queue)] if queue.joins_group else [],
        ),
    )


def ids_of(provider: Provider) -> str:
    """Return the beginning of its relay's transactional ids; of any provider's without a number."""
    if not provider.pk:
        return f"sluice.{settings.SLUICE_DEPLOYMENT}."
    return transactional_id(provider.pk, 0).removesuffix("0")


def _writes(queue: Queue) -> bool:
    """Outbound messages, copies of failures, retry markers."""
    has_retry_markers = queue.kind == Queue.Kind.CONTINUOUS and queue.carrier == Queue.Carrier.TOPIC
    return queue.direction == Queue.Direction.OUTBOUND or queue.is_error_queue or has_retry_markers
