"""From a query string to the filter of the failures list, and back."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Final

from django import forms
from django.http import QueryDict
from django.utils import timezone

from console.layout.answers import parse_id
from console.layout.asked import BadFilterError
from console.layout.list_filter import ListFilterForm, MomentField
from console.layout.words import FAILURES
from integration.policy.states import OPEN
from integration.selectors.failures.cause_ids import ID_LENGTH, UNKNOWN, cause_id, fingerprint_of
from integration.selectors.failures.failures import Choices, FailureFilter

STATES: Final = (
    ("OPEN", "All open"),
    *((state, word) for state, (_, _, word) in FAILURES.items()),
    ("", "All, closed ones too"),
)
OPEN_ONES: Final = OPEN | {"OPEN"}
# What only people who may see payloads can look for: a hit tells what is in them.
SECRET: Final = ("key", "text")
# A text is looked for in so much time before now, unless the person says since when.
TEXT_WINDOW: Final = timedelta(hours=24)
NOT_BY_TEXT: Final = (
    "a text in payloads is searched for only among the newest failures, so there may be more. Tick "
    "the failures that you mean."
)
NO_RUN: Final = "This is not the id of a bulk run. Copy it from the run's page."
NO_CAUSE: Final = "This is not the id of a cause here. Choose the cause by its group or a failure."
CODE_TOO: Final = "To search for a cause among closed failures, choose its code as well."


class FailureFilterForm(ListFilterForm):
    """The filter of the failures list.

    `offered` are the names to choose from; an action by a filter needs none. Without
    `may_see_payload` there are no fields for key and text: an answer would tell about contents.
    """

    first_fields = ("state", "queue", "system", "code")
    # An empty state means all of them, closed ones too.
    usual: ClassVar[Mapping[str, str]] = {"state": "OPEN"}
    state = forms.ChoiceField(choices=STATES, required=False, initial="OPEN")
    queue = forms.ChoiceField(required=False)
    system = forms.ChoiceField(required=False, label="External system")
    code = forms.ChoiceField(required=False)
    interface = forms.CharField(required=False, max_length=100, label="Service")
    since = MomentField(required=False, label="Failed since (UTC)")
    until = MomentField(required=False, label="Failed until (UTC)")
    message_id = forms.CharField(required=False, max_length=1_000, label="Message id")
    run = forms.CharField(required=False, max_length=36, label="Rejected by the bulk run")
    fingerprint = forms.CharField(required=False, max_length=ID_LENGTH, label="Cause (its id)")
    origin_topic = forms.CharField(required=False, max_length=249, label="Dead letter of the topic")
    cause_class = forms.CharField(
        required=False, max_length=200, label="Dead letter's exception (class)"
    )
    key = forms.CharField(required=False, max_length=1_000, strip=False, label="Record key")
    text = forms.CharField(
        required=False,
        max_length=200,
        strip=False,
        label="Text in the payload (last 24 h, or “Failed since”)",
    )

    def __init__(
        self, query: QueryDict, offered: Choices | None = None, *, may_see_payload: bool = False
    ) -> None:
        wanted = query.copy()
        wanted.setdefault("state", "OPEN")
        if may_see_payload and wanted.get("text") and not wanted.get("since"):
            wanted["since"] = f"{_earliest(wanted):%Y-%m-%dT%H:%M}"
        super().__init__(wanted)
        if not may_see_payload:
            for name in SECRET:
                del self.fields[name]
        offered = offered or Choices((), (), ())
        self._offer("queue", list(offered.queues), "All queues")
        self._offer("system", list(offered.systems), "All systems")
        self._offer("code", list(offered.codes), "All codes")

    def clean_fingerprint(self) -> str:
        """Only the index of open failures knows causes; closed ones are found by their code."""
        asked: str = self.cleaned_data["fingerprint"]
        if fingerprint_of(asked) == UNKNOWN:
            raise forms.ValidationError(NO_CAUSE)
        if asked and not self.data.get("code") and self.data.get("state") not in OPEN_ONES:
            raise forms.ValidationError(CODE_TOO)
        return asked

    def clean_run(self) -> str:
        """Its id as it is stored."""
        asked: str = self.cleaned_data["run"]
        run = parse_id(asked)
        if asked and run is None:
            raise forms.ValidationError(NO_RUN)
        return str(run or "")

    def refuse_unreadable(self) -> None:
        super().refuse_unreadable()
        if self.data.get("text"):
            raise BadFilterError(NOT_BY_TEXT)

    def wanted(self) -> FailureFilter:
        """The filter without the fields that could not be read."""
        given = self.understood()
        if self.cleaned_data.get("state") == "":
            given["state"] = ""
        return FailureFilter(**given)


def with_cause_id(query: str) -> str:
    """A stored filter as it is shown: one of an earlier release may have a raw fingerprint."""
    given = QueryDict(query, mutable=True)
    shown = cause_id(given.get("fingerprint", ""))
    if shown == given.get("fingerprint", ""):
        return query
    given["fingerprint"] = shown
    return given.urlencode()


def without_secrets(query: str) -> str:
    """A filter as a query string, for who may not see payloads."""
    given = QueryDict(query, mutable=True)
    for name in SECRET:
        given.pop(name, None)
    return given.urlencode()


def _earliest(wanted: QueryDict) -> datetime:
    try:
        until = datetime.fromisoformat(wanted.get("until", ""))
    except ValueError:
        until = timezone.now()
    try:
        return until - TEXT_WINDOW
    except OverflowError:
        return until
