"""One frozen picture of a queue's configuration, read in two queries."""

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from integration.delivery.snapshot import EndpointSnapshot, Forward, QueueSnapshot, Service
from integration.delivery.tracked import Following, following, order_texts
from integration.endpoints.properties import FORWARDS, sends_as_it_is
from integration.models import (
    Endpoint,
    EnterpriseService,
    ObjectStructure,
    Provider,
    PublishChannel,
    Queue,
)
from integration.policy.failure import Failure, FailureClass
from integration.store import strict_order, tracks
from integration.store.takers import Missing, resolve

# The columns of a queue that the engine takes as they are.
_AS_THEY_ARE: Final = (
    *("name", "provider_id", "topic", "paused", "is_error_queue", "on_gap", "on_head_expired"),
    *("crash_limit", "dedupe", "batch_size", "stay_seconds", "handler_timeout_seconds", "tracks"),
    *("retry_wrapper", "two_phase", "second_database", "selector"),
)


# What of a provider does not say how its cluster and its registry are reached.
_BESIDE_ITS_ADDRESS: Final = frozenset({"id", "name", "shards", "idle_watched_at"})


def snapshot(queue_id: int, *, worker: str) -> QueueSnapshot:
    """The configuration now. Raises Queue.DoesNotExist when the queue was removed."""
    return snapshot_of(queue_with_its_own(queue_id), worker=worker)


def queue_with_its_own(queue_id: int) -> Queue:
    """Return the queue's row with every row it names. Raises Queue.DoesNotExist."""
    return Queue.objects.select_related(
        "provider", "system", "default_service", "error_queue", "endpoint__system"
    ).get(pk=queue_id)


def snapshot_of(queue: Queue, *, worker: str) -> QueueSnapshot:
    """The configuration of a queue that was read with all it names."""
    rows = list(EnterpriseService.objects.select_related("structure"))
    endpoint, routes = _routes(queue)
    forward = _forward(queue)
    sends = endpoint is not None or any(routes.values())
    system, error_queue, default = queue.system, queue.error_queue, queue.default_service
    return QueueSnapshot(
        id=queue.pk,
        **{name: getattr(queue, name) for name in _AS_THEY_ARE},
        provider_name=queue.provider.name,
        reached_by=_reached_by(queue.provider),
        is_jms=queue.provider.is_jms,
        # An error queue lets the next failure pass unless strict order was chosen for it.
        sequential=queue.is_sequential and (not queue.is_error_queue or queue.strict_order),
        enabled=queue.enabled and (sends or queue.direction == Queue.Direction.INBOUND),
        system=None if system is None else system.name,
        system_enabled=system is None or system.enabled,
        default_interface=None if default is None else default.interface,
        retry=queue.retry_policy(),
        failure_thresholds=queue.failure_thresholds(),
        # Partners may read an outbound topic: no retry markers there. Nor at a JMS broker.
        carrier=Queue.Carrier.ROW if sends or queue.provider.is_jms else queue.carrier,
        error_topic=None if error_queue is None else error_queue.topic,
        error_provider_id=None if error_queue is None else error_queue.provider_id,
        strict_error_queue=strict_order.of(error_queue),
        followed=_followed(_trackings(queue, rows)) if queue.tracks else {},
        write_tracks=tracks.texts,
        services={row.interface: service_of(row, worker) for row in rows},
        sends=sends,
        endpoint=endpoint,
        routes=routes,
        forward=forward,
        concurrency=1 if queue.is_sequential else queue.concurrency,
        workers=queue.most_workers,
        group=(queue.group_protocol, queue.group_id) if queue.joins_group else ("", ""),
        keeps_keys_in_order=queue.keeps_keys_in_order,
        order_texts=order_texts(queue.order_path) if queue.keeps_keys_in_order else None,
        worker=worker,
        mark=(
            _mark(queue, rows),
            endpoint,
            tuple(routes.items()),
            None if forward is None else (forward.problem, forward.mark),
        ),
    )


def _routes(queue: Queue) -> tuple[EndpointSnapshot | None, dict[str, EndpointSnapshot | None]]:
    """Return where an outbound queue's messages go: its endpoint, and those of its channels."""
    if queue.direction != Queue.Direction.OUTBOUND:
        return None, {}
    targets = queue.targets.select_related("channel", "endpoint__system")
    routes = {target.channel.name: _endpoint(target.endpoint, queue) for target in targets}
    return _endpoint(queue.endpoint, queue), routes


def _forward(queue: Queue) -> Forward | None:
    """Return what forwards the queue's messages, where its endpoint is another topic."""
    if queue.endpoint is None or queue.direction != Queue.Direction.OUTBOUND:
        return None
    make = FORWARDS.get(queue.endpoint.endpoint_type)
    forward: Forward | None = None if make is None else make(queue.endpoint, queue)
    return forward


def _endpoint(row: Endpoint | None, queue: Queue) -> EndpointSnapshot | None:
    if row is None:
        return None
    settings = (row.endpoint_type, sorted(row.properties.items()), row.secrets)
    return EndpointSnapshot(
        id=row.pk,
        name=row.name,
        system=row.system.name,
        idempotent=row.repeats_for(is_sequential=queue.keeps_order),
        rate_per_second=row.rate_per_second,
        max_concurrent=row.max_concurrent,
        open_after=row.open_after,
        as_it_is=sends_as_it_is(row.endpoint_type, row.properties),
        mark=_digest(settings),
    )


def _reached_by(provider: Provider) -> str:
    """Return what tells other addresses, logins and certificates of a provider from these."""
    names = {field.attname for field in Provider._meta.concrete_fields} - _BESIDE_ITS_ADDRESS
    return _digest([(name, getattr(provider, name)) for name in sorted(names)])


def _digest(settings: object) -> str:
    """Return what tells settings from others without holding any of their secrets."""
    return hashlib.blake2b(repr(settings).encode(), digest_size=16).hexdigest()


def _mark(queue: Queue, rows: list[EnterpriseService]) -> Any:
    system, error_queue = queue.system, queue.error_queue
    services = tuple(
        (r.interface, r.enabled, r.structure_id, _marked(r.structure), r.retry_rule(), r.format)
        for r in rows
    )
    return (
        queue.tracks,
        _trackings(queue, rows),
        queue.changed_at,
        queue.provider.name,
        _reached_by(queue.provider),
        queue.enabled,
        queue.paused,
        None if system is None else (system.name, system.enabled),
        None if error_queue is None else (error_queue.topic, error_queue.provider_id),
        strict_order.of(error_queue),
        services,
    )


Tracking = tuple[str, str, tuple[str, ...], bool]


def _trackings(queue: Queue, services: Iterable[EnterpriseService]) -> tuple[Tracking, ...]:
    """(interface, external id's path, search paths, keeps payload) of whoever names any."""
    named: Iterable[EnterpriseService | PublishChannel] = services
    if queue.direction == Queue.Direction.OUTBOUND:
        named = PublishChannel.objects.all()
    trackings = (
        (str(one), one.external_id_path, tuple(map(str, one.search_paths)), one.keeps_payload)
        for one in named
    )
    return tuple(tracking for tracking in trackings if any(tracking[1:]))


def _followed(trackings: Iterable[Tracking]) -> dict[str, Following]:
    followed = {
        interface: following(external, searched, keeps_payload=keeps)
        for interface, external, searched, keeps in trackings
    }
    return {interface: follow for interface, follow in followed.items() if follow is not None}


def _marked(structure: ObjectStructure | None) -> Any:
    if structure is None:
        return None
    paths = repr((structure.key_paths, structure.version_path, structure.json_schema))
    return (structure.tombstone, paths)


def service_of(row: EnterpriseService, worker: str) -> Service:
    """Return who takes its messages on this worker, or why nobody does."""
    taker = resolve(row.interface, row)
    if not row.enabled:
        lacks = ", and no handler for it is installed" if isinstance(taker, Missing) else ""
        text = f"The enterprise service {row.interface} is switched off{lacks}."
        failure = Failure(FailureClass.DISABLED, "SERVICE_DISABLED", text)
        return Service(row.interface, None, failure)
    if isinstance(taker, Missing):
        text = f"No handler for {row.interface} is installed on worker {worker}."
        failure = Failure(FailureClass.DISABLED, "HANDLER_MISSING", text)
        return Service(row.interface, None, failure)
    structure = row.structure
    deletes = structure is not None and structure.tombstone == ObjectStructure.Tombstone.DELETE
    return Service(row.interface, taker, None, deletes, row.retry_rule(), row.format)
