"""Object structures: document types with key paths, tried on a pasted sample before saving."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from console.forms.json_field import JsonField
from console.forms.setup_form import SetupForm, names_in
from console.layout.access import Right, needs
from console.layout.answers import see
from console.setup.lists import Counted, Named, filters_by
from console.setup.noun import Noun
from console.setup.pages import known_row, refuse, seen_in, show_form
from integration.models import ObjectStructure
from integration.selectors.setup import nouns, tryout

TRIED: Final = frozenset({"key_paths", "version_path", "json_schema"})


class PathLines(forms.CharField):
    """Paths, one a line."""

    widget = forms.Textarea(attrs={"rows": 3, "class": "lines", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [
            line.strip() for line in (super().to_python(value) or "").splitlines() if line.strip()
        ]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.prepare_value(initial) != data)


class OptionalDocument(JsonField):
    """JSON, or nothing: an empty field says that there is none, better than the word null."""

    def prepare_value(self, value: Any) -> Any:
        if value is None:
            return ""
        # Half of a character stays the escape that it was typed as: no page can hold it.
        return str(super().prepare_value(value)).encode(errors="backslashreplace").decode()


PARTS: Final = (
    ("", "", ("name", "description")),
    ("What identifies a document", "", ("key_paths", "version_path")),
    ("What is accepted", "", ("json_schema", "tombstone")),
    (
        "Try it on a sample",
        (
            "Nothing is stored: you see what each path finds, the resulting key and what the "
            "schema refuses."
        ),
        ("sample",),
    ),
)


class StructureForm(SetupForm):
    """A document type; `sample` is tried and never stored."""

    parts = PARTS
    key_paths = PathLines(
        label="Key paths",
        help_text="One per line: JSONPath such as $.assetnum, or XPath such as /Asset/ASSETNUM. "
        "Their values together form the key; a message with the key of a stored document replaces "
        "it.",
    )
    sample = forms.CharField(
        required=False,
        label="Sample document",
        widget=forms.Textarea(attrs={"rows": 6, "class": "lines", "spellcheck": "false"}),
        help_text="A message's payload as JSON or XML, or the whole envelope.",
    )

    class Meta:
        model = ObjectStructure
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "json_schema": "JSON Schema",
            "tombstone": "A message that deletes",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _. Handlers and services refer to it.",
            "description": "What these documents are about, in a few words.",
            "version_path": "Optional: a whole number or an ISO timestamp in the document. The "
            "higher one wins, whichever came first; without it, the order of arrival decides.",
            "json_schema": "Optional, draft 2020-12, for JSON documents. Documents it refuses are "
            "put on hold (SCHEMA_VIOLATION).",
            "tombstone": "One without a value (a tombstone), or Maximo's with action=Delete. A "
            "deletion is remembered, so that an older message does not bring the document back.",
        }
        field_classes: ClassVar[dict[str, Any]] = {"json_schema": OptionalDocument}
        widgets: ClassVar[dict[str, Any]] = {
            "json_schema": forms.Textarea(
                attrs={"rows": 6, "class": "lines", "spellcheck": "false"}
            ),
        }

    def tried(self) -> tryout.Tryout:
        """Try the values of this form, saved or not, on its sample."""
        given = self.cleaned_data
        return tryout.try_out(
            given.get("sample", ""),
            given.get("key_paths", []),
            given.get("version_path", ""),
            given.get("json_schema"),
        )


class StructureTable(tables.Table):
    """The list of structures."""

    name = Named("structure")
    key_paths = tables.Column("Key")
    service_count = Counted("Services")
    description = tables.Column()

    def render_key_paths(self, value: list[str]) -> str:
        return ", ".join(map(str, value))


def _more(request: HttpRequest, structure: ObjectStructure) -> Mapping[str, object]:
    listed = _records()
    may_open = listed and request.user.is_staff
    may_open = may_open and request.user.has_perm("integration.view_storedobject")
    return {
        "documents": nouns.documents_of(structure),
        "documents_cap": nouns.DOCUMENTS_CAP,
        "documents_at": f"{listed}?structure__id__exact={structure.pk}" if may_open else "",
    }


def _records() -> str:
    """The page of Django's admin with all stored objects; empty in a project of its own admin."""
    try:
        return reverse("admin:integration_storedobject_changelist")
    except NoReverseMatch:
        return ""


STRUCTURES = Noun(
    one="structure",
    title="Object structures",
    about="A document type: where its key is found, which document is newer, what is accepted. "
    "Services store messages in it without any code.",
    form=StructureForm,
    table=StructureTable,
    filters=filters_by("name", "description"),
    rows=nouns.structures,
    uses=nouns.uses_of_structure,
    more=_more,
    is_shared=True,
)


@needs(Right.VIEW, Right.CONFIGURE)
def try_sample(request: HttpRequest, number: int | None = None) -> HttpResponse:
    """The form again, with what it makes of its sample; nothing is stored."""
    row = None if number is None else known_row(request, STRUCTURES, number)
    refuse(STRUCTURES.hindrance(request.user))
    if request.method != "POST":
        return see("structure-new") if number is None else see("structure-change", number)
    form = StructureForm(request.POST, instance=row)
    form.is_valid()
    # A name that is missing or taken does not keep anybody from trying paths.
    for name in form.errors.keys() - TRIED:
        del form.errors[name]
    return show_form(
        request,
        STRUCTURES,
        form,
        seen=seen_in(request),
        tried=form.tried(),
        mistakes=[str(sentence) for e in form.errors.values() for sentence in e],
    )
