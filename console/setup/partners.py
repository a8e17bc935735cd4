"""A new partner in five steps: each saves one real thing with the forms of the set-up pages.

How far somebody is stands in the address.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import slugify

from console.forms.setup_form import SetupForm
from console.layout.access import Right, needs, scope_of
from console.layout.answers import SeeOther, actor_of, tell_problem
from console.setup import testmessages
from console.setup.noun import Noun
from console.setup.pages import new_form, refuse, shown_again, store
from console.setup.providers import PROVIDERS
from console.setup.queues import pages as queues
from console.setup.queues.effects import effects_of
from console.setup.queues.guided import GuidedQueueForm
from console.setup.services import SERVICES
from console.setup.structures import STRUCTURES, StructureForm
from console.setup.systems import SYSTEMS
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import ChangedMeanwhileError
from integration.models import EnterpriseService, Queue
from integration.selectors.setup import examination, takers
from integration.selectors.setup.nouns import chosen
from integration.selectors.setup.queues import queue_named

PROVIDER, SYSTEM, SERVICE, QUEUE, MESSAGE = "provider", "system", "service", "queue", "message"
STRUCTURE: Final = "structure"
STEPS: Final = {
    PROVIDER: "Provider",
    SYSTEM: "External system",
    SERVICE: "Service",
    QUEUE: "Queue",
    MESSAGE: "Test message",
}
# What each step chooses or makes, by the name it has in the address.
NOUNS: Final[dict[str, Noun]] = {
    PROVIDER: PROVIDERS,
    SYSTEM: SYSTEMS,
    SERVICE: SERVICES,
    STRUCTURE: STRUCTURES,
}
TEST, STORE_INTO = "test", "store_into"
MESSAGE_PAGE = "console/setup/partner_message.html"
NEXT = {PROVIDER: SYSTEM, SYSTEM: SERVICE, SERVICE: QUEUE, STRUCTURE: SERVICE}
# After these the same page comes again, with what is to be looked at before one goes on.
STAYS = frozenset({PROVIDER, SERVICE})


@dataclass(frozen=True, slots=True)
class PartnerPath:
    """The rows chosen or made so far, by step, within the person's scope."""

    rows: dict[str, Any]

    def row(self, step: str) -> Any:
        return self.rows.get(step)

    def with_row(self, step: str, row: Model) -> "PartnerPath":
        return PartnerPath({**self.rows, step: row})

    @property
    def query(self) -> str:
        known = {s: r.name if s == QUEUE else r.pk for s, r in self.rows.items()}
        return urlencode(known)

    def address(self, step: str) -> str:
        """The address of the step, with all that was made so far."""
        return self._with_query(reverse("partner-step", args=[step]))

    @property
    def message_step(self) -> str:
        return self.address(MESSAGE)

    def outcome(self, message_id: str) -> str:
        return self._with_query(reverse("partner-outcome", args=[message_id]))

    def stepper(self, current: str) -> list[tuple[str, str, str, bool]]:
        """Each step's title and address, what was chosen or made there, and if it is current."""
        return [
            (title, self.address(step), str(self.row(step) or ""), step == current)
            for step, title in STEPS.items()
        ]

    def begun_queue(self) -> Queue:
        """The queue that the form begins with: named after the partner and what it sends."""
        system, service = self.row(SYSTEM), self.row(SERVICE)
        words = [str(part) for part in (system, service) if part is not None]
        name = slugify("-".join(words))[:60]
        return Queue(
            provider=self.row(PROVIDER),
            system=system,
            default_service=service,
            name=name,
            topic=name.replace("-", ".", 1),
        )

    def _with_query(self, address: str) -> str:
        return f"{address}?{self.query}" if self.rows else address


@needs(Right.VIEW, Right.CONFIGURE)
def begin(request: HttpRequest) -> HttpResponse:
    """The first step."""
    return step(request, PROVIDER)


@needs(Right.VIEW, Right.CONFIGURE)
def step(request: HttpRequest, name: str) -> HttpResponse:
    """One of the first four steps, or the structure that the third may need."""
    path = path_of(request)
    if name == QUEUE:
        return _queue(request, path)
    if name == MESSAGE:
        return message(request)
    noun = NOUNS.get(name)
    if noun is None:
        raise Http404("A new partner has no such step.")
    if request.method != "POST":
        return _show(request, name, path)
    if TEST in request.POST and path.row(PROVIDER) is not None:
        return _show(request, name, path, tested=True)
    if STORE_INTO in request.POST and path.row(SERVICE) is not None:
        return _store_into(request, path)
    return _make(request, name, noun, path)


@needs(Right.VIEW, Right.CONFIGURE, Right.OPERATE, Right.EDIT_PAYLOAD)
def message(request: HttpRequest) -> HttpResponse:
    """The last step: a test message to the queue that was made."""
    path = path_of(request)
    queue: Queue | None = path.row(QUEUE)
    frame = _frame(path, MESSAGE)
    if queue is None:
        return render(request, MESSAGE_PAGE, frame)
    return testmessages.sending(request, queue, path.outcome, template=MESSAGE_PAGE, frame=frame)


@needs(Right.VIEW, Right.CONFIGURE)
def outcome(request: HttpRequest, message_id: str) -> HttpResponse:
    """The message on its way; at its end, where to go from here."""
    journey = testmessages.followed(request, message_id)
    frame = _frame(path_of(request), MESSAGE)
    template = "console/setup/partner_outcome.html"
    return testmessages.show_outcome(request, journey, template, **frame)


def _make(request: HttpRequest, name: str, noun: Noun, path: PartnerPath) -> HttpResponse:
    """Store what the form says, and go on with it."""
    refuse(noun.hindrance(request.user, founds=True))
    form = new_form(request, noun, request.POST)
    if again := shown_again(request, form, partial(_show, request, name, path)):
        return again
    messages.success(request, f"{form.instance} was added.")
    return SeeOther(_onward(path, name, form.instance))


def _onward(path: PartnerPath, name: str, row: Any) -> str:
    """The address that follows once a step has this row."""
    return path.with_row(name, row).address(name if name in STAYS else NEXT[name])


def _store_into(request: HttpRequest, path: PartnerPath) -> HttpResponse:
    """Let the chosen service store into the chosen structure."""
    refuse(NOUNS[SERVICE].hindrance(request.user))
    service: EnterpriseService = path.row(SERVICE)
    seen, wanted = configuration.stamp(service), path.row(STRUCTURE) or service.structure
    if service.structure not in {None, wanted}:
        # It is offered for a service without one: another is chosen in the service's form.
        messages.warning(request, f"{service} is stored into {service.structure} already.")
        return SeeOther(path.address(SERVICE))
    service.structure = wanted
    author = Author(actor_of(request), "New partner: the structure takes it.")
    try:
        store(request, service, author, seen=seen)
    except ChangedMeanwhileError as problem:
        tell_problem(request, problem)
    return SeeOther(path.address(SERVICE))


def _show(
    request: HttpRequest,
    name: str,
    path: PartnerPath,
    form: SetupForm | None = None,
    *,
    tested: bool = False,
    status: int = 200,
) -> HttpResponse:
    noun, row = NOUNS[name], path.row(name)
    hindrance = noun.hindrance(request.user, founds=True)
    if form is None:
        form = new_form(request, noun, None)
        if name == SERVICE and path.row(STRUCTURE) is not None:
            form.initial["structure"] = path.row(STRUCTURE).pk
        form.closed_by(hindrance)
    form.lay_out()
    context = {
        **_frame(path, name),
        "noun": noun,
        "form": form,
        "hindrance": hindrance,
        "chosen": row,
        "offered": [
            (one, _onward(path, name, one)) for one in noun.rows(scope_of(request.user))[:50]
        ],
        "next": path.address(NEXT[name]),
        "structure_address": path.address(STRUCTURE),
        **_look(name, row, form, tested=tested),
    }
    return render(request, "console/setup/partner_step.html", context, status=status)


def _look(name: str, row: Any, form: SetupForm, *, tested: bool) -> dict[str, object]:
    """Context to check before continuing: the connection, who takes the messages, a sample."""
    if name == PROVIDER and tested and row is not None:
        return {"tested": examination.examined(row)}
    if name == SERVICE and row is not None:
        taker = takers.effect(row.interface, row.structure)
        return {"taker": taker, "nobody_takes": bool(takers.standstill(row))}
    if isinstance(form, StructureForm) and form.is_bound:
        return {"tried": form.tried()}
    return {}


def _queue(request: HttpRequest, path: PartnerPath) -> HttpResponse:
    """Step four: the queues' own form, with what has a good default folded away."""
    scope = scope_of(request.user)
    if request.method != "POST":
        return _show_queue(request, path, GuidedQueueForm(instance=path.begun_queue(), scope=scope))
    form = GuidedQueueForm(request.POST, scope=scope)
    if again := shown_again(request, form, partial(_show_queue, request, path)):
        return again
    messages.success(request, queues.made_words(form.instance))
    return SeeOther(path.with_row(QUEUE, form.instance).address(MESSAGE))


def _show_queue(
    request: HttpRequest, path: PartnerPath, form: GuidedQueueForm, *, status: int = 200
) -> HttpResponse:
    form.lay_out()
    system = path.row(SYSTEM)
    known = [] if system is None else list(system.queues.filter(direction="inbound")[:50])
    context = {
        **_frame(path, QUEUE),
        "form": form,
        "effects": effects_of(form, asks_broker=form.is_bound),
        "effects_address": queues.effects_address(""),
        "is_asked": form.is_bound,
        "is_new": True,
        "offered": [(q, path.with_row(QUEUE, q).address(MESSAGE)) for q in known],
    }
    return render(request, "console/setup/partner_queue.html", context, status=status)


def _frame(path: PartnerPath, current: str) -> dict[str, object]:
    shown = SERVICE if current == STRUCTURE else current
    return {
        "stepper": path.stepper(shown),
        "number": list(STEPS).index(shown) + 1,
        "step": current,
        "path": path,
        "queue_step": path.address(QUEUE),
        "service_step": path.address(SERVICE),
    }


def path_of(request: HttpRequest) -> PartnerPath:
    """Read the address; numbers that lead nowhere are as if they were not there."""
    scope = scope_of(request.user)
    rows = {
        step: chosen(noun.rows(scope), request.GET.get(step, "")) for step, noun in NOUNS.items()
    }
    rows[QUEUE] = queue_named(request.GET.get(QUEUE, ""), scope)
    return PartnerPath({step: row for step, row in rows.items() if row is not None})
