"""The forms that ask for bulk jobs: made from a job's job request, as those of cron tasks are."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from crispy_forms.helper import FormHelper
from django import forms
from django.core.exceptions import BadRequest
from django.http import HttpRequest, QueryDict

from console.forms.parameters import fields_of, name_of, values_of
from console.layout.answers import parse_id
from crontasks import parameters
from crontasks.bulk.catalogue import Entry
from integration.selectors.bulk import choices
from integration.selectors.scope import Scope

# A job request is a few names, a map and perhaps a recipe.
JOB_REQUEST_CHARACTERS: Final = 200_000
REASON_CHARACTERS: Final = 500
INTO_QUEUE: Final = "into_queue"
# Of these only queues that are read can be meant.
READ: Final = frozenset({"queue", "rejects_queue", INTO_QUEUE})


class BadJobRequestError(BadRequest):
    """The form does not carry a job request as this console writes it."""

    def __init__(self) -> None:
        super().__init__(
            "The form does not say what is asked for: its field “job_request” is missing or "
            "cannot be read. Go back to Bulk jobs and begin again."
        )


class JobRequestForm(forms.Form):
    """The fields of a job's job request; `without` are those that the page asks for otherwise.

    `stored` is a job request that the form begins with.
    """

    def __init__(
        self,
        given: QueryDict | None = None,
        *,
        entry: Entry,
        scope: Scope,
        stored: Mapping[str, Any] | None = None,
        without: Sequence[str] = (),
    ) -> None:
        super().__init__(given)
        self.entry = entry
        self.stored = dict(stored or {})
        self.described = [
            one for one in parameters.describe(entry.job_request) if one.name not in without
        ]
        self.fields.update(fields_of(self.described, self.stored))
        self._offer(scope)
        self.helper = FormHelper()
        self.helper.form_tag = False
        self.helper.disable_csrf = True

    def job_request(self) -> dict[str, Any]:
        """What the form says, without what is usual; a text that is left empty is as usual."""
        found = values_of(self.described, self.cleaned_data, self.stored)
        usual = {one.name for one in self.described if one.default}
        return {name: value for name, value in found.items() if value != "" or name not in usual}

    def _offer(self, scope: Scope) -> None:
        """Names are chosen, not typed, where it is known what they name."""
        for one in self.described:
            if one.name in self.entry.queues or one.name == INTO_QUEUE:
                direction = "inbound" if one.name in READ else ""
                self._choose(name_of(one), choices.queue_names(scope, direction=direction))
            elif one.name == "structure":
                shared = one.name in self.entry.shared and not scope.is_whole
                self._choose(name_of(one), [] if shared else choices.structure_names())

    def _choose(self, name: str, offered: Sequence[str]) -> None:
        field = self.fields[name]
        given = str(field.initial or "")
        # A name that is not there any more stays in sight: the form tells that it is gone.
        gone = [given] if given and given not in offered else []
        blank = [("", "Choose…" if field.required else "None")]
        chosen = forms.ChoiceField(
            required=field.required,
            choices=[*blank, *((one, one) for one in [*offered, *gone])],
            label=field.label,
            help_text=field.help_text,
            initial=field.initial,
        )
        self.fields[name] = chosen


def job_request_of(request: HttpRequest) -> dict[str, Any]:
    """What a page of this console carries on. Raises BadJobRequestError, answered with a 400."""
    text = request.POST.get("job_request", "")
    try:
        found = json.loads(text) if len(text) <= JOB_REQUEST_CHARACTERS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(_is_plain(value) for value in found.values()):
        raise BadJobRequestError
    return found


def carried(job_request: Mapping[str, Any]) -> str:
    """The job request as a page carries it on; what it says is judged anew each time."""
    return json.dumps(job_request, ensure_ascii=False)


def number_of_run(request: HttpRequest) -> UUID:
    """The id that the run will have: a second click asks for the same run."""
    return parse_id(request.POST.get("run", "")) or uuid4()


def reason_of(request: HttpRequest) -> str:
    return request.POST.get("reason", "").strip()[:REASON_CHARACTERS]


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
