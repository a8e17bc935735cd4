"""Enterprise services: inbound message types and what takes them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from crispy_forms.layout import Fieldset
from django.http import HttpRequest

from console.forms.durations import DurationField, DurationListField
from console.forms.setup_form import Part, SetupForm, names_in
from console.setup.lists import Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from console.setup.queues import fields as words
from console.setup.structures import PathLines
from integration.models import EnterpriseService
from integration.models.system import MessageFormat
from integration.selectors.setup import nouns, retry_line, takers

RETRIES: Final = (
    "max_retries",
    "backoff",
    "retry_delay_seconds",
    "retry_factor",
    "retry_delays_seconds",
    "retry_cap_seconds",
    "retry_jitter",
    "retry_total_seconds",
)
NO_OWN: Final = "None of its own: those of its handler, or of the queue"
BACKOFFS: Final = (("", NO_OWN), *words.BACKOFFS)
# What may be left to the queue.
LEFT_OUT: Final = ("max_retries", "retry_cap_seconds", "retry_jitter", "retry_total_seconds")
OF_QUEUE: Final = "Empty: as the queue has it."
NO_LIMIT: Final = "Empty = no limit."
STAYS_SWITCHED: Final = "Saving does not switch the service on or off; the switch is on its page."


PARTS: Final = (
    ("", "", ("interface", "description")),
    ("What processes its messages", "", ("structure", "format", "enabled")),
    (
        "How they are found again",
        "The values that tracking keeps for each message, so that you can search by them.",
        ("external_id_path", "search_paths", "keeps_payload"),
    ),
    (
        "Its own retries",
        (
            "Choose pauses here to have its messages tried again otherwise than the queue says, "
            "and than its handler declares. Without pauses of its own, nothing below them counts."
        ),
        ("backoff", *(name for name in RETRIES if name != "backoff")),
    ),
)


class ServiceForm(SetupForm):
    """An inbound message type."""

    parts = PARTS
    search_paths = PathLines(
        required=False,
        label="Search paths",
        help_text="Optional: at most two, one per line. If a path finds nothing in a message, the "
        "message is tracked without it.",
    )
    retry_delay_seconds = DurationField(required=False)
    retry_delays_seconds = DurationListField(required=False)
    retry_cap_seconds = DurationField(required=False)
    retry_total_seconds = DurationField(required=False, least_seconds=1)

    class Meta:
        model = EnterpriseService
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "Switched on",
            "format": "Format of its messages",
            "external_id_path": "Path of the external id",
            "keeps_payload": "Keep payloads",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "interface": "The name that senders write into INTERFACE of the envelope, or into the "
            "header sluice-interface. It is case-sensitive.",
            "description": "What these messages are about, in a few words.",
            "enabled": "Off: sequential queues wait at the next message of this service, "
            "continuous ones put each such message on hold. No retry is spent, nothing is lost.",
            "format": "Avro, JSON Schema and Protobuf come in a schema registry's wire format (a "
            "zero byte and the schema's id), which the provider's registry explains; whoever "
            "processes them gets a JSON document. A message in another format than the one chosen "
            "here is put on hold (FORMAT_MISMATCH).",
            "external_id_path": "Optional: JSONPath such as $.ponum, or XPath such as /PO/PONUM, "
            "of the sender's own number. Messages tracked from now on can be found by it.",
            "keeps_payload": "On: tracking also keeps each payload up to 1 MiB, for people with "
            "the right to see payloads. It takes up space in the database until cleanup drops its "
            "day.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        structure: Any = self.fields["structure"]
        structure.empty_label = "None: the registered handler processes them"
        chosen = nouns.chosen(structure.queryset, self.entered("structure"))
        if self.instance.pk:
            # Its page has the switch, which asks back: saving paths must not switch anything.
            del self.fields["enabled"]
        self.fields["format"].choices = MessageFormat.choices  # type: ignore[attr-defined]
        structure.help_text = takers.effect(str(self.entered("interface") or ""), chosen)
        self._dress_retries()
        path = self.fields["external_id_path"].widget
        path.attrs.update({"class": "lines", "spellcheck": "false"})

    def _dress_retries(self) -> None:
        """Word the retries as the queue's form does, but that what is empty is the queue's."""
        for name in RETRIES:
            field = self.fields[name]
            field.required = False
            field.label = words.LABELS[name]
            field.help_text = words.HELPS.get(name, "").removesuffix(NO_LIMIT).strip()
            if name in LEFT_OUT:
                field.help_text += f" {OF_QUEUE}"
        backoff: Any = self.fields["backoff"]
        backoff.choices = BACKOFFS

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        usual = EnterpriseService()
        for name in ("retry_delay_seconds", "retry_factor"):
            if self.cleaned_data.get(name, 0) is None:
                self.cleaned_data[name] = getattr(usual, name)
        return self.cleaned_data

    def _part(self, part: Part) -> Fieldset:
        title, sentence, names = part
        is_known = "enabled" in names and self.instance.pk is not None
        return super()._part((title, STAYS_SWITCHED if is_known else sentence, names))


class ServiceTable(tables.Table):
    """The list of services."""

    interface = Named("service", "Service")
    enabled = Switched()
    taker = tables.Column("Processed by", accessor="pk", orderable=False)
    description = tables.Column()

    def render_taker(self, record: EnterpriseService) -> str:
        return takers.taken_by(record.interface, record.structure)


def _more(_request: HttpRequest, service: EnterpriseService) -> Mapping[str, object]:
    return {
        "effect": takers.effect(service.interface, service.structure),
        "handler": takers.handler_of(service.interface),
        "hook": takers.hook_of(service.interface),
        "retries": retry_line.of_service(
            service.retry_rule(),
            None if service.structure_id is not None else takers.declared(service.interface),
        ),
    }


SERVICES = Noun(
    one="service",
    title="Enterprise services",
    about="An inbound message type: the INTERFACE that senders name, and what processes such "
    "messages.",
    form=ServiceForm,
    table=ServiceTable,
    filters=filters_by("interface", "description", enabled=SwitchFilter()),
    rows=takers.services,
    uses=nouns.uses_of_service,
    stops=nouns.stopped_with_service,
    held=nouns.held_with_service,
    warns=takers.standstill,
    more=_more,
    label="interface",
    is_shared=True,
)
