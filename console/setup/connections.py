"""Connection factories: how applications that look one up by name send to Kafka."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django.http import HttpRequest

from console.forms.setup_form import SetupForm, names_in
from console.setup.lists import NUMBER, Named, filters_by
from console.setup.noun import Noun
from integration.models import ConnectionFactory
from integration.selectors.setup import nouns

PARTS: Final = (
    ("", "", ("name", "description", "provider")),
    ("Sending", "", ("goal", "transactional")),
    (
        "Pool",
        "Each process that looks it up has a pool of its own.",
        ("least", "most", "idle_seconds", "wait_seconds"),
    ),
)


class ConnectionForm(SetupForm):
    """A connection factory."""

    parts = PARTS

    class Meta:
        model = ConnectionFactory
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "goal": "Tuned for",
            "transactional": "Transactions",
            "least": "Connections kept",
            "most": "Most connections",
            "idle_seconds": "Seconds until an idle one ends",
            "wait_seconds": "Seconds to wait for one",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _. Applications look it up: "
            "connections.lookup(“payments”).",
            "description": "Who sends what by it, in a few words.",
            "provider": "The Kafka cluster that is sent to.",
            "goal": "How long records wait for others, and how large packets become. What Kafka "
            "has confirmed is in every in-sync copy with each of them.",
            "transactional": "Readers of committed messages see what a session sends once it "
            "commits, all of it or nothing.",
            "least": "So many stay open, however long nobody uses them.",
            "most": "So many at a time; who needs one more waits.",
            "idle_seconds": "Those beyond the ones that are kept end after this time.",
            "wait_seconds": "Then the application is told who holds them all.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["provider"].queryset = nouns.kafka_providers()  # type: ignore[attr-defined]


class ConnectionTable(tables.Table):
    """The list of connection factories."""

    name = Named("connection")
    provider = tables.Column(linkify=("provider", {"number": tables.A("provider__pk")}))
    goal = tables.TemplateColumn("{{ record.get_goal_display }}", verbose_name="Tuned for")
    transactional = tables.TemplateColumn("{{ value|yesno:'yes,no' }}", verbose_name="Transactions")
    most = tables.Column("Most connections", attrs=NUMBER)


def _more(_request: HttpRequest, _factory: ConnectionFactory) -> Mapping[str, object]:
    return {}


CONNECTIONS = Noun(
    one="connection",
    title="Connections",
    about="How applications that look up a name send to Kafka by themselves: pooled, with or "
    "without transactions. Messages of handlers go through channels instead.",
    form=ConnectionForm,
    table=ConnectionTable,
    filters=filters_by("name", "description"),
    rows=nouns.connections,
    more=_more,
    is_shared=True,
)
