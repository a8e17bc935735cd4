"""The engine's own rows, to look at only: what people may change of them is on the console."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from integration.models import BatchLog, Gap, OutboxRow, QueuePartition, RelayLease


class LookedAt(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Nothing can be added, changed or deleted; big tables are not counted."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401, ARG002 - Django's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401, ARG002 - Django's signature
        return False


@admin.register(QueuePartition)
class QueuePartitionAdmin(LookedAt):
    """Positions; the queue's page has them in words."""

    list_display = ("queue", "partition", "state", "state_code", "next_offset", "epoch", "seen_at")
    list_filter = ("state",)
    list_select_related = ("queue",)


@admin.register(Gap)
class GapAdmin(LookedAt):
    """Offsets passed untried."""

    list_display = (
        "partition",
        "from_offset",
        "to_offset",
        "reason",
        "found_at",
        "acknowledged_by",
    )
    list_select_related = ("partition__queue",)


@admin.register(BatchLog)
class BatchLogAdmin(LookedAt):
    """Arrival numbers of committed ranges."""

    list_display = ("number", "partition", "from_offset", "to_offset", "committed_at")
    list_select_related = ("partition__queue",)


@admin.register(OutboxRow)
class OutboxRowAdmin(LookedAt):
    """What is to be written to Kafka, without its content."""

    list_display = ("id", "kind", "topic", "state", "not_before", "created_at", "published_at")
    list_filter = ("state", "kind")
    exclude = ("key", "value", "headers")


@admin.register(RelayLease)
class RelayLeaseAdmin(LookedAt):
    """Who relays."""

    list_display = ("provider", "shard", "owner", "lease_until", "in_doubt_since")
    list_select_related = ("provider",)
