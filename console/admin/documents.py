"""The documents stored under object structures, to look at only."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from console.admin.records import LookedAt
from console.layout import trail
from console.layout.access import Right, has
from integration.models import StoredObject


@admin.register(StoredObject)
class StoredObjectAdmin(LookedAt):
    """Documents as they were applied; changing one here would contradict its messages."""

    about = (
        "The newest document of each key, as the last message left it; a deletion stays as a row "
        "without a document. Only messages change it: to correct one, ask its sender to send it "
        "again, or send a test message to the service."
    )

    list_display = ("key", "structure", "deleted", "version", "message_id", "updated_at")
    list_filter = ("structure",)
    list_select_related = ("structure",)
    search_fields = ("key",)
    search_help_text = "The beginning of a key, or the whole key."

    @admin.display(description="deleted", empty_value="")
    def deleted(self, row: StoredObject) -> str:
        """A deletion is remembered in the same row, so that an older document stays away.

        A word instead of a tick: for a document that exists nothing is shown.
        """
        return "deleted" if row.is_deleted else ""

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return () if has(request.user, Right.VIEW_PAYLOAD) else ("document", "xml")

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page of one document; whoever sees what is in it leaves a row of audit."""
        answer = super().change_view(request, object_id, form_url, extra_context)
        row = getattr(answer, "context_data", {}).get("original")
        if isinstance(row, StoredObject) and has(request.user, Right.VIEW_PAYLOAD):
            trail.note_view(request, "storedobject", row.pk, f"{row.pk} of {row.structure}")
        return answer
