"""The forms that ask for bulk jobs: made from a job's job request, as those of cron tasks are."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crispy_forms.helper import FormHelper
from django import forms
from django.http import QueryDict

from console.forms.parameters import fields_of, name_of, values_of
from crontasks import parameters
from crontasks.bulk.catalogue import Entry
from integration.selectors.bulk import structures
from integration.selectors.queues import queues
from integration.selectors.scope import Scope

INTO_QUEUE: Final = "into_queue"
# Of these only queues that are read can be meant.
READ: Final = frozenset({"queue", "rejects_queue", INTO_QUEUE})


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
        self.helper.template_pack = "bootstrap5"
        self.helper.form_tag = False
        self.helper.disable_csrf = True

    def job_request(self) -> dict[str, Any]:
        """The fields that were filled in; a text that is left empty is as usual."""
        said = values_of(self.described, self.cleaned_data, self.stored)
        usual = {one.name for one in self.described if one.default}
        return {name: value for name, value in said.items() if value != "" or name not in usual}

    def _offer(self, scope: Scope) -> None:
        """Names are chosen, not typed, where it is known what they name."""
        for one in self.described:
            if one.name in self.entry.queues or one.name == INTO_QUEUE:
                direction = "inbound" if one.name in READ else ""
                self._choose(name_of(one), queues.names(scope, direction))
            elif one.name == "structure":
                shared = one.name in self.entry.shared and not scope.is_whole
                self._choose(name_of(one), [] if shared else structures.structure_names())

    def _choose(self, name: str, offered: Sequence[str]) -> None:
        field = self.fields[name]
        named = str(field.initial or "")
        # A name that is not there any more stays in sight: the form says that it is gone.
        gone = [named] if named and named not in offered else []
        blank = [("", "Choose…" if field.required else "None")]
        self.fields[name] = forms.ChoiceField(
            required=field.required,
            choices=[*blank, *((one, one) for one in [*offered, *gone])],
            label=field.label,
            help_text=field.help_text,
            initial=field.initial,
        )
