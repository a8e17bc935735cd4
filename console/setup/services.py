"""Enterprise services: inbound message types and what takes them."""

from collections.abc import Mapping
from typing import Any, ClassVar

import django_tables2 as tables
from django.http import HttpRequest

from console.setup.columns import Named, Switched
from console.setup.filters import words_and_switch
from console.setup.forms import SetupForm
from console.setup.noun import Noun
from integration.models import EnterpriseService
from integration.selectors.setup import nouns, takers


class ServiceForm(SetupForm):
    """An inbound message type."""

    parts = (
        ("", "", ("interface", "description")),
        ("What takes its messages", "", ("structure", "enabled")),
    )

    class Meta:
        model = EnterpriseService
        fields = ("interface", "description", "structure", "enabled")
        labels: ClassVar[dict[str, str]] = {"enabled": "Switched on"}
        help_texts: ClassVar[dict[str, str]] = {
            "interface": "As senders write it into INTERFACE of the envelope, or into the header "
            "sluice-interface; every letter counts, capitals too.",
            "description": "What these messages are about, in a few words.",
            "enabled": "Off: sequential queues wait at the next message of this service, "
            "continuous ones put each of them on hold. No retry is spent, nothing is lost.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        structure: Any = self.fields["structure"]
        structure.empty_label = "None: the registered handler takes them"
        chosen = nouns.structure_named_by(self.entered("structure"))
        if self.instance.pk:
            self.fields[
                "enabled"
            ].help_text = f"Switching it off stops: {nouns.stopped_with_service(self.instance)}"
        structure.help_text = takers.effect(str(self.entered("interface") or ""), chosen)


class ServiceTable(tables.Table):
    """The list of services."""

    interface = Named("service", "Service")
    enabled = Switched()
    taker = tables.Column("Taken by", accessor="pk", orderable=False)
    description = tables.Column()

    class Meta:
        fields = ("interface", "enabled", "taker", "description")

    def render_taker(self, record: EnterpriseService) -> str:
        return takers.taken_by(record.interface, record.structure)


def _more(_request: HttpRequest, service: EnterpriseService) -> Mapping[str, object]:
    return {
        "effect": takers.effect(service.interface, service.structure),
        "handler": takers.handler_of(service.interface),
    }


SERVICES = Noun(
    one="service",
    many="services",
    word="enterprise service",
    title="Enterprise services",
    about="An inbound message type: the INTERFACE that senders name, and what takes such messages.",
    model=EnterpriseService,
    form=ServiceForm,
    table=ServiceTable,
    filters=words_and_switch("interface", "description"),
    rows=nouns.services,
    uses=nouns.uses_of_service,
    stops=nouns.stopped_with_service,
    more=_more,
    label="interface",
    card_page="console/setup/service.html",
    is_shared=True,
)
