"""Connection factories: how applications that look one up by name send to Kafka."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.forms.setup_form import SetupForm, names_in
from console.layout.access import Right, needs
from console.layout.answers import see
from console.setup.lists import NUMBER, Named, filters_by
from console.setup.noun import Noun
from console.setup.pages import UNEXPLAINED, author_of, known_row, refuse, show_card
from crontasks.problems import asking
from integration.actions import branches as decisions
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.models import ConnectionFactory
from integration.selectors.setup import branches, nouns
from integration.xa.changing import refuse_change

PARTS: Final = (
    ("", "", ("name", "description", "provider")),
    ("Sending", "", ("goal", "transactional")),
    (
        "Transactions over several resources",
        "With a database, or with whatever else a coordinator of two-phase commits knows.",
        ("xa", "xa_side_topic", "xa_log_topic", "xa_expires_seconds"),
    ),
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
            "xa": "Log of transactions",
            "xa_side_topic": "Side topic",
            "xa_log_topic": "Topic of the log",
            "xa_expires_seconds": "Seconds until started ones are rolled back",
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
            "xa": "Where it is written which branches there are and how far each has come. A topic "
            "needs nothing but Kafka; the database is faster and shows them to SQL.",
            "xa_side_topic": "What is sent waits there until it is decided. Not compacted, and "
            "kept for longer than a coordinator may ever be away.",
            "xa_log_topic": "Only with a log in a topic: compacted, one partition, and nothing is "
            "deleted.",
            "xa_expires_seconds": "A branch that was not prepared by then is given up. A prepared "
            "one never is.",
            "least": "So many stay open, however long nobody uses them.",
            "most": "So many at a time; who needs one more waits.",
            "idle_seconds": "Those beyond the ones that are kept end after this time.",
            "wait_seconds": "Then the application is told who holds them all.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["provider"].queryset = nouns.kafka_providers()  # type: ignore[attr-defined]

    def _post_clean(self) -> None:
        """Django's place for checks of the whole instance; the log is asked at the end."""
        super()._post_clean()  # type: ignore[misc] # not in the stubs
        if self.errors:
            return
        try:
            refuse_change(self.instance)
        except ValidationError as problem:
            self.add_error(None, problem)


class ConnectionTable(tables.Table):
    """The list of connection factories."""

    name = Named("connection")
    provider = tables.Column(linkify=("provider", {"number": tables.A("provider__pk")}))
    goal = tables.TemplateColumn("{{ record.get_goal_display }}", verbose_name="Tuned for")
    transactional = tables.TemplateColumn("{{ value|yesno:'yes,no' }}", verbose_name="Transactions")
    most = tables.Column("Most connections", attrs=NUMBER)


def _more(request: HttpRequest, factory: ConnectionFactory) -> Mapping[str, object]:
    """The log of transactions is read when somebody asks: Kafka may not answer."""
    is_asked = "branches" in request.GET and factory.xa != ConnectionFactory.XaLog.OFF
    return {
        "branches": branches.of_factory(factory) if is_asked else None,
        "waiting": asking.connections_waiting().get(factory.name, ""),
    }


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


@require_POST
@needs(Right.VIEW, Right.CONFIGURE)
def decide(request: HttpRequest, number: int) -> HttpResponse:
    """Commit, roll back or forget a branch whose coordinator does not come back."""
    row = known_row(request, CONNECTIONS, number)
    refuse(CONNECTIONS.hindrance(request.user))
    xid = request.POST.get("xid", "")
    mistake = _decided(row, xid, request.POST.get("choice", ""), author_of(request))
    if mistake:
        found = branches.of_factory(row)
        return show_card(
            request, CONNECTIONS, row, status=422, branches=found, branch_mistake=mistake
        )
    messages.success(request, f"It is decided about the branch {xid}; the history tells of it.")
    return see("connection", number)


@require_POST
@needs(Right.VIEW, Right.CONFIGURE)
def accept_log(request: HttpRequest, number: int) -> HttpResponse:
    """Take a log of transactions that was replaced as it is now."""
    row = known_row(request, CONNECTIONS, number)
    refuse(CONNECTIONS.hindrance(request.user))
    author = author_of(request)
    if not author.reason:
        found = branches.of_factory(row)
        return show_card(
            request, CONNECTIONS, row, status=422, branches=found, branch_mistake=UNEXPLAINED
        )
    decisions.accept_log(row, author)
    messages.success(request, "The log is accepted as it is; the history tells of it.")
    return see("connection", number)


def _decided(row: ConnectionFactory, xid: str, choice: str, author: Author) -> str:
    """Do it; what is wrong with the request, or nothing."""
    if not author.reason:
        return UNEXPLAINED
    if choice not in set(decisions.Choice):
        return "Choose what is to happen to the branch."
    try:
        decisions.decide(row, xid, decisions.Choice(choice), author)
    except IntegrationError as problem:
        return f"{problem.code}: {problem}"
    return ""
