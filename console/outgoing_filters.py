"""From a query string to the filter of the outbox list, and back."""

from typing import Final
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from integration.delivery.policy.states import OutboxKind, OutboxState
from integration.selectors.outgoing import OutgoingFilter

STATES: Final = (
    (OutboxState.DEAD.value, "Refused by Kafka"),
    (OutboxState.PENDING.value, "Waiting to be sent"),
    (OutboxState.STAMPED.value, "Being sent, or in doubt"),
)
KINDS: Final = (
    ("", "All kinds"),
    (OutboxKind.MESSAGE.value, "Messages"),
    (OutboxKind.TICKET.value, "Markers of retries"),
    (OutboxKind.MIRROR.value, "Copies for error queues"),
)


class OutgoingFilterForm(forms.Form):
    """The list's filter. Whatever cannot be read is told and left out."""

    state = forms.ChoiceField(choices=STATES, required=False)
    queue = forms.ChoiceField(required=False)
    code = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(choices=KINDS, required=False)
    topic = forms.CharField(required=False, max_length=249)
    message_id = forms.CharField(required=False, max_length=1_000, label="Message id")

    def __init__(self, query: QueryDict, queues: list[str], codes: list[str]) -> None:
        wanted = query.copy()
        if not wanted.get("state"):
            wanted["state"] = OutboxState.DEAD.value
        super().__init__(wanted)
        self._offer("queue", queues, "All queues")
        self._offer("code", codes, "All codes")
        for field in self.fields.values():
            look = "form-select" if isinstance(field, forms.ChoiceField) else "form-control"
            field.widget.attrs["class"] = f"{look} {look}-sm"

    def wanted(self) -> OutgoingFilter:
        """The filter without the fields that could not be read."""
        self.is_valid()
        return OutgoingFilter(**{name: text for name, text in self.cleaned_data.items() if text})

    def query(self) -> str:
        """The filter as a query string, without a place in the list."""
        given = {name: self.data.get(name, "") for name in self.fields}
        if given["state"] == OutboxState.DEAD:
            del given["state"]
        return urlencode({name: text for name, text in given.items() if text})

    def _offer(self, name: str, known: list[str], every: str) -> None:
        """A value that is not known any more stays selectable: the address stays true."""
        given = self.data.get(name, "")
        extra = [given] if given and given not in known else []
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        field.choices = [("", every), *((value, value) for value in [*known, *extra])]
