"""The documents stored under object structures, to look at only."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from console.admin.records import LookedAt
from console.layout import trail
from console.layout.access import Right, has
from integration.documents.exact_json import encode
from integration.masking.mask import NOTHING, Mask
from integration.models import StoredObject
from integration.models.structure import StoredObjects
from integration.selectors.masking.documents import masked_text
from integration.selectors.masking.rules import masks


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

    def get_queryset(self, request: HttpRequest) -> QuerySet[StoredObject]:
        """A document is read where it is shown: not in the list."""
        rows = super().get_queryset(request)
        assert isinstance(rows, StoredObjects)  # noqa: S101 - its model's own queries
        return rows.without_documents()

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if has(request.user, Right.VIEW_PAYLOAD) and not self._mask(obj).hides_payload:
            return ()
        return ("document", "xml")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = list(super().get_fields(request, obj))
        shows = has(request.user, Right.VIEW_PAYLOAD) and self._mask(obj).hides_payload
        return [*fields, "masked_document"] if shows else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        return (*fields, "masked_document") if self._mask(obj).hides_payload else fields

    def _mask(self, row: StoredObject | None) -> Mask:
        """The mask of a document; read once for each page of one."""
        if row is None:
            return NOTHING
        known: Mask | None = getattr(row, "sluice_mask", None)
        if known is None:
            known = masks().of_structure(row.structure_id)
            row.sluice_mask = known  # type: ignore[attr-defined] # kept with the page's row
        return known

    @admin.display(description="document, masked values hidden")
    def masked_document(self, row: StoredObject) -> str:
        """The document with placeholders for what masking rules hide."""
        text = row.xml or ("" if row.document is None else encode(row.document))
        shown = masked_text(text, self._mask(row))
        return "Hidden as a whole." if shown is None else shown

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
