"""The list of all queues: from its address to a filter, and the queues that pass it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from django import forms
from django.http import QueryDict

from console.layout.list_filter import ListFilterForm
from integration.models import Queue
from integration.selectors.queues.rates import Pace, traffic
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import Status

NEED: Final = "NEED"
LATEST: Final = datetime.max.replace(tzinfo=UTC)
STATES: Final = (
    ("", "All states"),
    (NEED, "Needs a person"),
    *((status.name, status.label) for status in Status),
)
KINDS: Final = (
    ("", "All kinds"),
    *Queue.Kind.choices,
    ("error", "Error queues"),
    ("outbound", "Outbound"),
)
ORDERS: Final = (
    ("", "Most urgent first"),
    ("name", "By name"),
    ("waiting", "Most waiting first"),
    ("oldest", "Oldest waiting first"),
    ("traffic", "Busiest first"),
)


class QueueFilterForm(ListFilterForm):
    """The filter and the order of the list of queues."""

    system = forms.ChoiceField(required=False)
    state = forms.ChoiceField(choices=STATES, required=False)
    kind = forms.ChoiceField(choices=KINDS, required=False)
    text = forms.CharField(
        required=False, max_length=100, label="Text", help_text="In the name, topic or description."
    )
    order = forms.ChoiceField(choices=ORDERS, required=False)

    def __init__(self, query: QueryDict, systems: Sequence[str]) -> None:
        super().__init__(query)
        self._offer("system", list(systems), "All systems")

    @property
    def narrows(self) -> bool:
        """Return True when it leaves anything out."""
        return any(self._says(name) for name in ("system", "state", "kind", "text"))

    def passed(self, rows: Sequence[QueueRow], paces: Mapping[int, Pace]) -> list[QueueRow]:
        """The rows that pass, in the order asked for; what cannot be read is left out."""
        said = self.understood()
        passing = [row for row in rows if _passes(row, said)]
        return _ordered(passing, said.get("order", ""), paces)


def _passes(row: QueueRow, said: Mapping[str, str]) -> bool:
    text = said.get("text", "").lower()
    return (
        said.get("system", row.system) == row.system
        and _is_of_state(row, said.get("state", ""))
        and _is_of_kind(row, said.get("kind", ""))
        and any(text in words.lower() for words in (row.name, row.topic, row.description))
    )


def _is_of_state(row: QueueRow, state: str) -> bool:
    if state == NEED:
        return row.status.needs_a_person
    return not state or row.status.name == state


def _is_of_kind(row: QueueRow, kind: str) -> bool:
    if kind == "error":
        return row.is_error_queue
    if kind == "outbound":
        return row.direction == Queue.Direction.OUTBOUND
    return not kind or row.kind == kind


def _ordered(rows: list[QueueRow], order: str, paces: Mapping[int, Pace]) -> list[QueueRow]:
    """They come most urgent first."""
    if order == "name":
        return sorted(rows, key=lambda row: row.name)
    if order == "waiting":
        return sorted(rows, key=lambda row: -(row.lag or 0))
    if order == "traffic":
        return sorted(rows, key=lambda row: -traffic(paces.get(row.id)))
    if order == "oldest":
        return sorted(rows, key=lambda row: row.oldest_waiting_at or LATEST)
    return rows
