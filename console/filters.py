"""From a query string to the filter of the failures list, and back."""

from typing import Final
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from integration.selectors.failures import FailureFilter

STATES: Final = (
    ("OPEN", "All open"),
    ("HOLD", "On hold"),
    ("RETRY", "Waiting for a retry"),
    ("READY", "Released"),
    ("PROCESSING", "Tried alone after a crash"),
    ("RESOLVED", "Resolved"),
    ("DELETED", "Deleted"),
    ("", "All, closed ones too"),
)
MOMENT: Final = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class FailureFilterForm(forms.Form):
    """The list's filter. Whatever cannot be read is told and left out."""

    state = forms.ChoiceField(choices=STATES, required=False, initial="OPEN")
    queue = forms.ChoiceField(required=False)
    code = forms.ChoiceField(required=False)
    interface = forms.CharField(required=False, max_length=100)
    message_id = forms.CharField(required=False, max_length=1_000, label="Message id")
    fingerprint = forms.CharField(required=False, max_length=16, label="Cause (fingerprint)")
    since = forms.DateTimeField(required=False, widget=MOMENT, label="Failed since (UTC)")
    until = forms.DateTimeField(required=False, widget=MOMENT, label="Failed until (UTC)")

    def __init__(self, query: QueryDict, queues: list[str], codes: list[str]) -> None:
        wanted = query.copy()
        wanted.setdefault("state", "OPEN")
        super().__init__(wanted)
        self._offer("queue", queues, "All queues")
        self._offer("code", codes, "All codes")
        for field in self.fields.values():
            look = "form-select" if isinstance(field, forms.ChoiceField) else "form-control"
            field.widget.attrs["class"] = f"{look} {look}-sm"

    def wanted(self) -> FailureFilter:
        """The filter without the fields that could not be read."""
        self.is_valid()
        given = {
            name: value for name, value in self.cleaned_data.items() if value or name == "state"
        }
        return FailureFilter(**given)

    def query(self) -> str:
        """The filter as a query string, without a place in the list."""
        return urlencode(
            {name: self.data.get(name, "") for name in self.fields if self._says(name)}
        )

    def _says(self, name: str) -> bool:
        value = self.data.get(name, "")
        return value != "OPEN" if name == "state" else bool(value)

    def _offer(self, name: str, known: list[str], every: str) -> None:
        """A value that is not known any more stays selectable: the address stays true."""
        given = self.data.get(name, "")
        extra = [given] if given and given not in known else []
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        field.choices = [("", every), *((value, value) for value in [*known, *extra])]


def state_name(state: str) -> str:
    """What a state is called on pages."""
    return dict(STATES).get(state, state)
