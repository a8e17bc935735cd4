"""The forms that pause a queue, stop it at an offset, and move its position."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError

from console.delivering import forms as delivering
from console.forms.durations import EXAMPLE, DurationField
from console.layout.list_filter import MomentField
from integration.actions.positions import Move
from integration.selectors.queues.seeking import To, Wanted

ALL: Final = ""
DRAIN: Final = "drain"
OFFSET: Final = "offset"
# What PostgreSQL and Kafka take for an offset.
LARGEST: Final = 2**63 - 1
MOVE: Final = re.compile(r"(\d{1,9}):(\d{1,18}):(\d{1,18}):(\d{1,18})")


class PauseForm(delivering.PauseForm):
    """The reason and length of a pause; without a length it lasts until a person resumes."""

    lasts = DurationField(
        least_seconds=10,
        required=False,
        label="How long",
        help_text=f"{EXAMPLE} Afterwards it continues by itself. Empty: until a person resumes it.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    reason = forms.CharField(
        max_length=200,
        required=False,
        label="Why",
        help_text="Shown on the overview.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    field_order = ("reason", "lasts")

    def ends(self) -> datetime | None:
        """The end of the pause; None until a person resumes the queue. Only of a valid form."""
        return None if self.cleaned_data["lasts"] is None else self.until()


class OfPartitionsForm(forms.Form):
    """A form about one partition of a queue, or about all of them."""

    partition = forms.ChoiceField(
        required=False, label="Partition", widget=forms.Select(attrs={"class": "form-select"})
    )

    def __init__(self, given: Any = None, *, partitions: Sequence[int]) -> None:
        # Another form of the page has a reason, too.
        super().__init__(given, auto_id="place_%s")
        field = self.fields["partition"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        each = [(str(number), f"Partition {number}") for number in partitions]
        field.choices = [(ALL, "All partitions"), *each]

    @property
    def chosen(self) -> int | None:
        """The partition that was chosen; None for all. Only of a valid form."""
        number = self.cleaned_data["partition"]
        return int(number) if number else None


class StopForm(OfPartitionsForm):
    """The place to work up to before the queue pauses."""

    until = forms.ChoiceField(
        choices=((DRAIN, "What is in the topic now (drain)"), (OFFSET, "An offset")),
        initial=DRAIN,
        label="Work up to",
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    offset = forms.IntegerField(
        min_value=0,
        max_value=LARGEST,
        required=False,
        label="Offset",
        help_text="Only for an offset: the first message that is not applied any more.",
        widget=forms.NumberInput(attrs={"class": "form-control"}),
    )
    reason = forms.CharField(
        max_length=200,
        required=False,
        label="Why",
        help_text="Shown while it works, and with the pause.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    field_order = ("until", "offset", "partition", "reason")

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        if said.get("until") == OFFSET and said.get("offset") is None and "offset" in said:
            self.add_error("offset", "Say the offset to stop at.")
        return said


class SeekForm(OfPartitionsForm):
    """The place that positions are moved to, in the address of the page."""

    to = forms.ChoiceField(choices=[(one.value, one.value) for one in To])
    offset = forms.IntegerField(min_value=0, max_value=LARGEST, required=False)
    at = MomentField(required=False)
    count = forms.IntegerField(min_value=1, max_value=1_000_000_000, required=False)

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        needed = {To.OFFSET: "offset", To.TIME: "at", To.SKIP: "count"}
        field = needed.get(said.get("to", ""))
        if field is not None and said.get(field) is None and field not in self.errors:
            words = {"offset": "the offset", "at": "the time", "count": "how many"}
            self.add_error(field, f"Say {words[field]}.")
        return said

    def wanted(self) -> Wanted:
        """What is asked for; only of a valid form."""
        said = self.cleaned_data
        return Wanted(
            to=To(said["to"]),
            partition=self.chosen,
            offset=said["offset"] or 0,
            at=said["at"],
            count=said["count"] or 0,
        )


class MoveForm(forms.Form):
    """The moves that a person has seen and confirms, with the reason."""

    reason = forms.CharField(
        max_length=200,
        label="Why",
        help_text="Kept in the queue's history.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    send_again = forms.BooleanField(required=False)

    def __init__(self, given: Any = None, *, moves: Sequence[str] = ()) -> None:
        super().__init__(given)
        self.written = moves

    def clean(self) -> dict[str, Any]:
        found = [MOVE.fullmatch(text) for text in self.written]
        if not found or not all(found):
            raise ValidationError("The form does not say what is to be moved: open the page again.")
        self.moves = [Move(*map(int, one.groups())) for one in found if one is not None]
        return super().clean() or {}
