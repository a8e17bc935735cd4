"""From a query string to the filter of the failures list, and back."""

from typing import Final

from django import forms
from django.http import QueryDict

from console.list_filter import ListFilterForm
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


class FailureFilterForm(ListFilterForm):
    """The filter of the failures list."""

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
        self._lay_out()

    def wanted(self) -> FailureFilter:
        """The filter without the fields that could not be read."""
        self.is_valid()
        given = {
            name: value for name, value in self.cleaned_data.items() if value or name == "state"
        }
        return FailureFilter(**given)

    def _says(self, name: str) -> bool:
        # An empty state means all of them, closed ones too.
        return self.data.get(name, "") != "OPEN" if name == "state" else super()._says(name)


def state_name(state: str) -> str:
    """What a state is called on pages."""
    return dict(STATES).get(state, state)
