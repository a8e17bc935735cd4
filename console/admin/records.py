"""The engine's own rows, to look at only: what people may change of them is on the console."""

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from integration.models import BatchLog, Gap, OutboxRow, QueuePartition, RelayLease, Rescue
from integration.selectors.masking.partitions import cover_places


class LookedAt(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Nothing can be added, changed or deleted; big tables are not counted.

    `about` says what a row is, who writes it, and where people change what it stands for.
    """

    about: ClassVar[str] = ""
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = f"{self.opts.verbose_name_plural}, read-only".capitalize()
        context = {"title": title, "subtitle": self.about, **(extra_context or {})}
        return super().changelist_view(request, context)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        title = f"{self.opts.verbose_name}, read-only".capitalize()
        context = {"title": title, "subtitle": self.about, **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)


@admin.register(QueuePartition)
class QueuePartitionAdmin(LookedAt):
    """Positions; the queue's page has them in words."""

    about = (
        "How far the engine has read one partition of a queue (next offset), and why it has "
        "stopped, if it has. Only the run that owns it writes it, with each batch. The queue's "
        "page explains it and has the buttons that go with it."
    )

    list_display = ("queue", "partition", "state", "state_code", "next_offset", "epoch", "seen_at")
    list_filter = ("state",)
    list_select_related = ("queue",)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> QueuePartition | None:
        """One of them, with what masking rules hide of the message it stopped at covered."""
        place: QueuePartition | None = super().get_object(request, object_id, from_field)
        cover_places([place] if place is not None else [])
        return place


@admin.register(Gap)
class GapAdmin(LookedAt):
    """Offsets passed untried."""

    about = (
        "Messages that left Kafka, or were skipped by a person's decision, before they were "
        "tried: from the first offset up to, but not including, the last. Acknowledge them on "
        "the queue's page."
    )

    list_display = (
        "partition",
        "from_offset",
        "to_offset",
        "reason",
        "found_at",
        "acknowledged_by",
    )
    list_select_related = ("partition__queue",)


@admin.register(Rescue)
class RescueAdmin(LookedAt):
    """Ranges of offsets that stand in the database."""

    about = (
        "Messages that were copied into the database untried because their topic was about to "
        "forget them: from the first offset up to, but not including, the last. Written by the "
        "rescue, removed by it once the queue has read them. The queue's page tells of them."
    )

    list_display = (
        "partition",
        "from_offset",
        "to_offset",
        "records",
        "bytes",
        "reason",
        "grew_at",
    )
    list_select_related = ("partition__queue",)


@admin.register(BatchLog)
class BatchLogAdmin(LookedAt):
    """Arrival numbers of committed ranges."""

    about = (
        "Which arrival number a committed range of offsets got, so that a replay gives the same "
        "numbers again and no older message overwrites a newer one. Written by the engine with "
        "each batch, removed by cleanup."
    )

    list_display = ("number", "partition", "from_offset", "to_offset", "committed_at")
    list_select_related = ("partition__queue",)


@admin.register(OutboxRow)
class OutboxRowAdmin(LookedAt):
    """Messages to be written to Kafka, without their content."""

    about = (
        "Messages to be written to Kafka, stored in the transaction of their cause until the "
        "relay has written them. Payloads and keys are not shown here. The console's outbox shows "
        "what waits for a person; decide there."
    )

    list_display = ("id", "kind", "topic", "state", "not_before", "created_at", "published_at")
    list_filter = ("state", "kind")
    exclude = ("key", "value", "headers")


@admin.register(RelayLease)
class RelayLeaseAdmin(LookedAt):
    """The process that relays."""

    about = (
        "Which process writes the outbox of a provider to Kafka now, until when it may, and which "
        "batch it left in doubt. Doubts are decided in the console's outbox."
    )

    list_display = (
        *("provider", "shard", "first_bucket", "end_bucket"),
        *("owner", "lease_until", "in_doubt_since"),
    )
    list_select_related = ("provider",)
