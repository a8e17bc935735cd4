"""Publish channels for tests: a queue of its own for each system."""

from integration.models import (
    ChannelTarget,
    Endpoint,
    ExternalSystem,
    Provider,
    PublishChannel,
    Queue,
)


def a_channel(
    name: str, *systems: str, kind: str = Queue.Kind.CONTINUOUS, **fields: object
) -> PublishChannel:
    """A channel with a target for each system, whose queue is called SYSTEM-out as its topic."""
    channel = PublishChannel.objects.create(name=name, **fields)
    for system in systems:
        a_target(channel, system, kind=kind)
    return channel


def a_target(
    channel: PublishChannel,
    system: str,
    *,
    queue: Queue | None = None,
    endpoint: Endpoint | None = None,
    kind: str = Queue.Kind.CONTINUOUS,
) -> ChannelTarget:
    partner, _ = ExternalSystem.objects.get_or_create(name=system)
    return ChannelTarget.objects.create(
        channel=channel,
        system=partner,
        queue=queue or an_outbound(f"{system}-out", partner, kind=kind),
        endpoint=endpoint,
    )


def an_outbound(
    name: str, system: ExternalSystem | None = None, *, kind: str = Queue.Kind.CONTINUOUS
) -> Queue:
    provider, _ = Provider.objects.get_or_create(
        name="main", defaults={"bootstrap_servers": "127.0.0.1:1"}
    )
    queue, _ = Queue.objects.get_or_create(
        name=name,
        defaults={
            "provider": provider,
            "topic": name,
            "direction": Queue.Direction.OUTBOUND,
            "kind": kind,
            "system": system,
            "start_from": Queue.StartFrom.END,
        },
    )
    return queue
