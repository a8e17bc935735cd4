"""The forms of operations: how one is started, how fast, what an edit changes, what is shown."""

from typing import Any, Final

from django import forms
from django.http import QueryDict

from integration import recipes
from integration.actions.operations import NEEDS_REASON, Options
from integration.models import Operation
from integration.policy.operations import StopRule
from integration.selectors.operations.operations import Show

MOST_A_SECOND: Final = 10_000
RATE_HELP: Final = (
    "Empty: as fast as the queues take them. 50 a second: 5,000 messages in 100 s. It can be "
    "changed while the operation runs."
)


class PartForm(forms.Form):
    """The part of its messages that a page lists; what cannot be read is as if it was not said."""

    show = forms.TypedChoiceField(
        required=False, coerce=Show, choices=[(one, one) for one in Show], empty_value=Show.ALL
    )
    after = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)


class RateForm(forms.Form):
    """The rate: messages a second."""

    rate = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_A_SECOND,
        label="Messages a second",
        help_text=RATE_HELP,
    )


class StartForm(RateForm):
    """The options of a planned operation; those that mean nothing for its verb are left out."""

    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Reason",
        help_text="Stands in the history of every message and in the audit.",
    )
    release_after_edit = forms.BooleanField(
        required=False,
        initial=True,
        label="Release each message after the change",
        help_text="In the same commit. Otherwise the changed messages stay on hold.",
    )
    late = forms.BooleanField(
        required=False,
        label="Also those whose sequential queue has gone on without them",
        help_text="They are applied late, after newer messages. Documents that have newer data "
        "are not overwritten; without this they stay on hold.",
    )
    stop = forms.CharField(
        required=False,
        max_length=20,
        label="Pause by itself when so many failed again",
        help_text="A number, or a share of those released so far such as 5 % (ten at "
        "least). What is released already is tried all the same: choose a rate as well.",
    )
    field_order = ("reason", "release_after_edit", "late", "rate", "stop")

    def __init__(
        self,
        operation: Operation,
        given: QueryDict | None = None,
        *,
        has_late: bool = True,
    ) -> None:
        super().__init__(given)
        self.fields["reason"].required = operation.verb in NEEDS_REASON
        if operation.verb != Operation.Verb.EDIT:
            del self.fields["release_after_edit"]
        releases = operation.verb in {Operation.Verb.EDIT, Operation.Verb.RELEASE}
        if not (releases and has_late):
            del self.fields["late"]
        if not releases:
            del self.fields["stop"]

    def clean_stop(self) -> StopRule:
        try:
            return StopRule.read(self.cleaned_data["stop"])
        except ValueError as refusal:
            raise forms.ValidationError(f"Please {refusal}.") from refusal

    def options(self, *, first_only: bool) -> Options:
        return Options(first_only=first_only, **self.cleaned_data)


class RecipeForm(forms.Form):
    """The change of each message: one path set to a value, or a JSON Patch."""

    path = forms.CharField(
        required=False,
        max_length=500,
        label="Path",
        help_text="Where in the document, like $.asset.siteid or /asset/siteid. The envelope "
        "around the document stays as it came.",
    )
    value = forms.CharField(
        required=False,
        max_length=5_000,
        label="New value",
        help_text="What stands there afterwards.",
    )
    kind = forms.ChoiceField(
        required=False,
        choices=[("text", "Text"), ("json", "A number, true, false, null or other JSON")],
        label="The new value is",
        help_text="007 as text stays 007; as a number it would not be one.",
    )
    add_missing = forms.BooleanField(
        required=False,
        label="Add it where it is missing",
        help_text="Otherwise messages without this path are left as they are and counted.",
    )
    patch = forms.CharField(
        required=False,
        max_length=recipes.MAX_CHARACTERS,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "font-monospace"}),
        label="Or a JSON Patch",
        help_text='For more than one change: [{"op": "replace", "path": "/siteid", "value": '
        '"NORTH"}, {"op": "remove", "path": "/old"}]. Given, it counts instead of the path.',
    )

    @classmethod
    def showing(cls, recipe: str) -> "RecipeForm":
        """The form as it was filled in for this recipe, to be corrected and tried again."""
        asked = recipes.value_set(recipe) if recipe else None
        if asked is None:
            return cls(initial={"patch": recipe})
        return cls(
            initial={
                "path": asked.path,
                "value": asked.value,
                "kind": "text" if asked.is_text else "json",
                "add_missing": asked.add_missing,
            }
        )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        field = "patch" if given.get("patch", "").strip() else "path"
        try:
            given["recipe"] = self._recipe(given)
        except recipes.Unreadable as refusal:
            why = str(refusal)
            self.add_error(field, f"{why[:1].upper()}{why[1:]}.")
        return given

    def _recipe(self, given: dict[str, Any]) -> str:
        patch = given.get("patch", "").strip()
        if patch:
            recipes.compile_written(patch)
            return str(patch)
        if not given.get("path"):
            raise recipes.Unreadable("name a path, or write a JSON Patch")
        return recipes.set_value(
            given["path"],
            given.get("value", ""),
            is_text=given.get("kind") != "json",
            add_missing=given.get("add_missing", False),
        )
