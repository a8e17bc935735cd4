"""External systems: the partners."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from console.forms.setup_form import SetupForm, names_in
from console.server.limits import HTTP_API_BODY_BYTES
from console.setup.lists import NUMBER, Counted, Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from integration.models import ExternalSystem
from integration.selectors.setup import nouns
from integration.selectors.setup.tokens import tokens_of

PARTS: Final = (
    ("", "", ("name", "description", "enabled")),
    (
        "HTTP API",
        (
            "What this partner may post over HTTP. Every request needs a token; make tokens "
            "on the system's page."
        ),
        ("requests_per_minute", "max_body_bytes", "legacy_door"),
    ),
)


class SystemForm(SetupForm):
    """A partner."""

    parts = PARTS

    class Meta:
        model = ExternalSystem
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "Switched on",
            "requests_per_minute": "Posts a minute, at most",
            "max_body_bytes": "Largest body, in bytes",
            "legacy_door": "Addresses and header of the system it migrates from",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _. Queues, endpoints and the limits of people refer to "
            "it, and people see it beside each message.",
            "requests_per_minute": "Empty: no limit. Posts beyond the limit are refused with 429 "
            "and the seconds to wait; a post with several messages counts once.",
            "max_body_bytes": "A larger post is refused with 413 before it is read. A single "
            "message may have 10,485,760 bytes, and no more than its topic accepts.",
            "legacy_door": "Also accepts /meaweb/esqueue/… and /meaweb/es/…, and user and token in "
            "the MAXAUTH header, so that a sender only has to change host name and password.",
            "description": "Who the partner is, and whom to call, in a few words.",
            "enabled": "Off: sequential queues of this system wait, continuous ones put each new "
            "message on hold. No retry is spent, nothing is lost.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["max_body_bytes"].required = False
        if self.instance.pk:
            self.fields[
                "enabled"
            ].help_text = f"Switching it off stops: {nouns.stopped_with_system(self.instance)}"

    def clean_max_body_bytes(self) -> int:
        given: int | None = self.cleaned_data["max_body_bytes"]
        default: int = ExternalSystem._meta.get_field("max_body_bytes").default
        if given and given > HTTP_API_BODY_BYTES:
            raise ValidationError(
                f"Enter at most {HTTP_API_BODY_BYTES:,}: bodies are split in memory."
            )
        return given or default


class SystemTable(tables.Table):
    """The list of external systems."""

    name = Named("system")
    enabled = Switched()
    queue_count = Counted("Queues")
    held_count = tables.TemplateColumn(
        "{% load sluice %}{% if value %}<a href=\"{% url 'failures' %}?state=HOLD&amp;system="
        '{{ record.name|urlencode }}">{{ value|number }}</a>{% else %}0{% endif %}',
        verbose_name="On hold",
        attrs=NUMBER,
    )
    changed_at = tables.TemplateColumn(
        "{% load sluice %}{{ value|ago }}", verbose_name="Last change", empty_values=()
    )
    description = tables.Column()


def _more(_request: HttpRequest, system: ExternalSystem) -> Mapping[str, object]:
    return {
        "queues": nouns.queues_of_system(system),
        "endpoints": system.endpoints.all(),
        "valid_tokens": sum(token.is_valid for token in tokens_of(system)),
    }


SYSTEMS = Noun(
    one="system",
    title="External systems",
    about="A partner that sends or receives messages. Queues and endpoints belong to it; switching "
    "it off stops its messages without losing any.",
    form=SystemForm,
    table=SystemTable,
    filters=filters_by("name", "description", enabled=SwitchFilter()),
    rows=nouns.systems,
    uses=nouns.uses_of_system,
    stops=nouns.stopped_with_system,
    held=nouns.held_with_system,
    more=_more,
    is_founding=True,
    is_grave=True,
)
