"""From a query string to the filter of the outbox list, and back."""

from collections.abc import Mapping
from typing import ClassVar, Final

from django import forms
from django.http import QueryDict

from console.layout.list_filter import ListFilterForm
from integration.policy.states import OutboxKind, OutboxState
from integration.selectors.outbox.rows import OutboxFilter
from integration.selectors.scope import Scope

STATES: Final = (
    (OutboxState.DEAD.value, "Refused by Kafka"),
    (OutboxState.PENDING.value, "Waiting to be sent"),
    (OutboxState.STAMPED.value, "Being sent, or in doubt"),
)
KINDS: Final = (
    ("", "All kinds"),
    (OutboxKind.MESSAGE.value, "Messages"),
    (OutboxKind.RETRY_MARKER.value, "Retry markers"),
    (OutboxKind.COPY.value, "Copies for error queues"),
)


class OutboxFilterForm(ListFilterForm):
    """The filter of the outbox list."""

    usual: ClassVar[Mapping[str, str]] = {"state": OutboxState.DEAD}
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

    def wanted(self, scope: Scope) -> OutboxFilter:
        """The filter without the fields that could not be read."""
        return OutboxFilter(scope=scope, **self.understood())
