"""Rows of the outbox and relays for the tests of the relay."""

import time
import uuid
from collections.abc import Callable, Mapping

from django.db import transaction
from django.utils import timezone

from integration.delivery.relay.ports import Publisher
from integration.delivery.relay.run import RelayEnd
from integration.models import OutboxRow, Provider, RelayLease
from integration.runs.relay import run_relay
from integration.store import outbox
from integration.values import Outgoing
from tests.support.memory.relay import MemoryBroker, MemoryPublisher

ENOUGH_SECONDS = 20.0


def a_provider(**fields: object) -> Provider:
    values = {"name": "main", "bootstrap_servers": "127.0.0.1:1", **fields}
    return Provider.objects.create(**values)


def put(provider: Provider, *values: bytes | None, **fields: object) -> list[int]:
    """Commit rows to the outbox; their ids."""
    rows = [
        Outgoing(**{"topic": "topic", "value": value, "provider_id": provider.pk, **fields})
        for value in values
    ]
    with transaction.atomic():
        outbox.insert(rows)
    found = OutboxRow.objects.order_by("-id").values_list("id", flat=True)[: len(rows)]
    return sorted(found)


def states(*ids: int) -> list[str]:
    found = OutboxRow.objects.filter(pk__in=ids) if ids else OutboxRow.objects.all()
    return list(found.order_by("id").values_list("state", flat=True))


def batch_of(row: int) -> uuid.UUID | None:
    """What a person's decision about the row has to name."""
    return OutboxRow.objects.get(pk=row).batch


def a_dead_row(provider: Provider, **fields: object) -> OutboxRow:
    """A row as the relay leaves it when Kafka refuses it alone."""
    values = {
        "topic": "orders-out",
        "kind": "MESSAGE",
        "message_id": "plant/EAM/1",
        "value": b'{"assetnum": "P-1"}',
        "key": b"P-1",
        "state": "DEAD",
        "batch": uuid.uuid4(),
        "created_at": timezone.now(),
        "dead_code": "MSG_SIZE_TOO_LARGE",
        "dead_text": "MSG_SIZE_TOO_LARGE: Broker: Message size too large",
    }
    return OutboxRow.objects.create(provider=provider, **{**values, **fields})


def a_relay_in_doubt(
    provider: Provider, rows: int = 2, **lease_fields: object
) -> tuple[RelayLease, uuid.UUID]:
    """A relay that waits for a person's word on its stamped batch."""
    batch = uuid.uuid4()
    for number in range(rows):
        a_dead_row(
            provider,
            state="STAMPED",
            batch=batch,
            dead_code="",
            dead_text="",
            message_id=f"plant/EAM/{number}",
        )
    lease = RelayLease.objects.create(
        provider=provider,
        epoch=4,
        in_doubt_since=timezone.now(),
        in_doubt_text=f"{rows} messages were about to be sent when the relay ended.",
        **lease_fields,
    )
    return lease, batch


def nothing_left() -> bool:
    return not OutboxRow.objects.filter(state__in=["PENDING", "STAMPED"]).exists()


def relay(
    provider: Provider,
    broker: MemoryBroker | Mapping[str, MemoryBroker],
    *,
    until: Callable[[], bool] = nothing_left,
    **options: object,
) -> RelayEnd:
    """Relay in this thread until a condition holds: to one cluster, or by bootstrap servers."""
    deadline = time.monotonic() + ENOUGH_SECONDS

    def stop() -> bool:
        assert time.monotonic() < deadline, "the relay did not get there"
        return until()

    def publisher_for(provider_id: int, shard: int) -> Publisher:
        if isinstance(broker, MemoryBroker):
            return MemoryPublisher(broker)
        return MemoryPublisher(broker[Provider.objects.get(pk=provider_id).bootstrap_servers])

    return run_relay(provider.pk, 0, stop=stop, publisher_for=publisher_for, **options)


def sent(broker: MemoryBroker) -> list[bytes | None]:
    return [row.value for row in broker.records]
