"""From a query string to the filter of tracked messages, and back."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

from django import forms
from django.http import QueryDict

from console.layout.list_filter import ListFilterForm, MomentField
from console.layout.words import ENDINGS
from integration.models import Queue
from integration.selectors.failures.failures import Choices
from integration.selectors.scope import Scope
from integration.selectors.tracking.search import WINDOW, TrackFilter

HOURS: Final = (
    ("1", "1 hour"),
    ("24", "24 hours"),
    ("168", "7 days"),
    ("720", "30 days"),
    ("8760", "All that is kept"),
)
USUAL: Final = str(int(WINDOW.total_seconds() // 3_600))
DIRECTIONS: Final = (("", "Both ways"), *Queue.Direction.choices)
STATES: Final = (("", "All"), *((ended, word) for ended, (_, _, word) in ENDINGS.items()))


class TrackFilterForm(ListFilterForm):
    """The filter of tracked messages. Without `may_see_payload` there is no field for the key."""

    first_fields = ("id", "queue", "ended", "hours")
    usual: ClassVar[Mapping[str, str]] = {"hours": USUAL}
    id = forms.CharField(
        required=False, max_length=1_000, label="Message, external, search or trace id"
    )
    queue = forms.ChoiceField(required=False)
    ended = forms.ChoiceField(choices=STATES, required=False, label="State")
    hours = forms.ChoiceField(choices=HOURS, required=False, label="Within")
    until = MomentField(required=False, label="Until (UTC), empty = now")
    system = forms.ChoiceField(required=False, label="External system")
    interface = forms.CharField(required=False, max_length=100, label="Service or channel")
    direction = forms.ChoiceField(choices=DIRECTIONS, required=False)
    key = forms.CharField(required=False, max_length=1_000, strip=False, label="Record key")

    def __init__(self, query: QueryDict, offered: Choices, *, may_see_payload: bool) -> None:
        wanted = query.copy()
        if wanted.get("hours") not in dict(HOURS):
            wanted["hours"] = USUAL
        super().__init__(wanted)
        self.may_see_payload = may_see_payload
        if not may_see_payload:
            del self.fields["key"]
            self.fields["id"].label = "Message or trace id"
        self._offer("queue", list(offered.queues), "All queues")
        self._offer("system", list(offered.systems), "All systems")

    @property
    def is_default(self) -> bool:
        return not any(self._says(name) for name in self.fields if name != "hours")

    def wanted(self, now: datetime, scope: Scope) -> TrackFilter:
        """The filter without the fields that could not be read; its window ends now by default."""
        said = self.understood()
        until = said.pop("until", None) or now + timedelta(minutes=1)
        since = _before(until, int(said.pop("hours", USUAL)))
        return TrackFilter(
            since=since,
            until=until,
            scope=scope,
            sees_contents=self.may_see_payload,
            **said,
        )


def _before(until: datetime, hours: int) -> datetime:
    try:
        return until - timedelta(hours=hours)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
