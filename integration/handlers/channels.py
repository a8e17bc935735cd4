"""Destinations of publish(): channels with their targets, and outbound queues, as configured."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from django.conf import settings

from integration.documents.structures import plan_for
from integration.envelope import DEFAULT
from integration.errors import IntegrationError
from integration.handlers.payloads import Rules
from integration.paths import Path, compile_path

XML: Final = "xml"
_WAY: Final = (
    "system__name",
    "endpoint_id",
    "queue_id",
    "queue__name",
    "queue__topic",
    "queue__provider_id",
    "queue__provider__registry_url",
    "queue__kind",
    "queue__endpoint_id",
    "queue__topic_max_bytes",
    "queue__retry_wrapper",
)


class UnknownChannelError(IntegrationError):
    """publish() names a channel that is not set up."""

    code = "UNKNOWN_CHANNEL"

    def __init__(self, channel: str) -> None:
        super().__init__(
            f"There is no publish channel named {channel!r}.",
            next_step="Set it up under Channels, or correct the name given to publish().",
        )
        self.channel = channel


class UnknownQueueError(IntegrationError):
    """publish_to() names a queue that is not registered as outbound."""

    code = "UNKNOWN_QUEUE"

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"There is no outbound queue at Kafka named {queue!r}.",
            next_step="Register it, or correct the name given to publish_to().",
        )
        self.queue = queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The destination of a message. `strict` is the queue's id when its order must be kept.

    `max_bytes` is the largest record that gets there, None where nothing is checked. With a
    `retry_wrapper` each message is wrapped, so that whoever sends it again can count. With a
    `subject` it is written by a schema of the provider's registry, whose address is `registry`.
    """

    queue: str
    topic: str
    provider_id: int
    system: str
    strict: int | None
    max_bytes: int | None = None
    retry_wrapper: bool = False
    subject: str = ""
    registry: str = ""


@dataclass(frozen=True, slots=True)
class Channel:
    """A publish channel as it is now; without `targets` while it is switched off.

    `schema_version` is that of its subjects, None for the latest.
    """

    name: str
    envelope: bool
    rules: Rules
    targets: tuple[Target, ...]
    schema_version: int | None = None


def channel_named(name: str) -> Channel:
    """The channel with its targets that are switched on. Raises UnknownChannelError.

    The switches of systems and queues do not count: they stop what is delivered, and what is
    published meanwhile waits.
    """
    # Authors may import this module where Django's models are not loaded yet.
    from integration.models import ChannelTarget, PublishChannel  # noqa: PLC0415 - see above

    alias = settings.SLUICE_DATABASE
    row = PublishChannel.objects.using(alias).select_related("structure").filter(name=name).first()
    if row is None:
        raise UnknownChannelError(name)
    ways: Any = ()
    if row.enabled:
        enabled = ChannelTarget.objects.using(alias).filter(channel=row, enabled=True)
        ways = enabled.order_by("system__name").values(*_WAY)
    targets = tuple(_target(way, row) for way in ways)
    return Channel(row.name, row.envelope, _rules(row), targets, row.schema_version)


def target_of_queue(name: str) -> Target:
    """Return where an outbound queue leads. Raises UnknownQueueError."""
    from integration.models import Queue  # noqa: PLC0415 - as above

    rows = Queue.objects.using(settings.SLUICE_DATABASE).select_related("system")
    # What reads from a JMS broker is written to by nobody here.
    rows = rows.filter(provider__kind="kafka")
    row = rows.filter(name=name, direction=Queue.Direction.OUTBOUND).first()
    if row is None:
        raise UnknownQueueError(name)
    return Target(
        queue=row.name,
        topic=row.topic,
        provider_id=row.provider_id,
        system="" if row.system is None else row.system.name,
        strict=row.pk if row.is_sequential else None,
        retry_wrapper=row.retry_wrapper,
    )


def _rules(row: Any) -> Rules:
    plan = None if row.structure is None else plan_for(row.structure)
    paths: tuple[Path, ...] = () if plan is None else plan.paths
    if row.key_path:
        paths = (_compiled(row.key_path),)
    return Rules(channel=row.name, is_xml=row.format == XML, key_paths=paths, plan=plan)


def _target(row: Any, channel: Any) -> Target:
    most = row["queue__topic_max_bytes"] or DEFAULT.max_bytes
    if row["endpoint_id"] or row["queue__endpoint_id"]:
        # What is delivered from the topic is read by the rules of everything that is read.
        most = min(most, DEFAULT.max_bytes)
    return Target(
        queue=row["queue__name"],
        topic=row["queue__topic"],
        provider_id=row["queue__provider_id"],
        system=row["system__name"],
        strict=row["queue_id"] if row["queue__kind"] == "sequential" else None,
        max_bytes=most,
        retry_wrapper=row["queue__retry_wrapper"],
        subject=channel.subject_for(row["queue__topic"]),
        registry=row["queue__provider__registry_url"],
    )


_compiled: Final = lru_cache(maxsize=256)(compile_path)
