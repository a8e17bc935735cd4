"""A new partner in five steps: each saves one real thing with the forms of the set-up pages."""

from django.contrib import messages
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.forms.setup_form import SetupForm
from console.layout.access import Right, needs, scope_of
from console.layout.answers import SeeOther, actor_of
from console.setup import partner_path as steps
from console.setup import testmessages
from console.setup.noun import Noun
from console.setup.pages import new_form, refuse
from console.setup.partner_path import PartnerPath, path_of
from console.setup.queues import pages as queues
from console.setup.queues.effects import effects_of
from console.setup.queues.guided import GuidedQueueForm
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.models import EnterpriseService, Queue
from integration.selectors.setup import examination, takers

TEST, TRY, STORE_INTO = "test", "try", "store_into"
MESSAGE_PAGE = "console/setup/partner_message.html"
NEXT = {
    steps.PROVIDER: steps.SYSTEM,
    steps.SYSTEM: steps.SERVICE,
    steps.SERVICE: steps.QUEUE,
    steps.STRUCTURE: steps.SERVICE,
}
# After these the same page comes again, with what is to be looked at before one goes on.
STAYS = frozenset({steps.PROVIDER, steps.SERVICE})


@needs(Right.VIEW, Right.CONFIGURE)
def begin(request: HttpRequest) -> HttpResponse:
    """The first step."""
    return step(request, steps.PROVIDER)


@needs(Right.VIEW, Right.CONFIGURE)
def step(request: HttpRequest, name: str) -> HttpResponse:
    """One of the first four steps, or the structure that the third may need."""
    path = path_of(request)
    if name == steps.QUEUE:
        return _queue(request, path)
    if name == steps.MESSAGE:
        return message(request)
    noun = steps.NOUNS.get(name)
    if noun is None:
        raise Http404("A new partner has no such step.")
    if request.method != "POST":
        return _show(request, name, path)
    if TEST in request.POST and path.row(steps.PROVIDER) is not None:
        return _show(request, name, path, tested=True)
    if STORE_INTO in request.POST and path.row(steps.SERVICE) is not None:
        return _store_into(request, path)
    return _make(request, name, noun, path)


@needs(Right.VIEW, Right.CONFIGURE, Right.OPERATE, Right.EDIT_PAYLOAD)
def message(request: HttpRequest) -> HttpResponse:
    """The last step: a test message to the queue that was made."""
    path = path_of(request)
    queue: Queue | None = path.row(steps.QUEUE)
    frame = _frame(path, steps.MESSAGE)
    if queue is None:
        return render(request, MESSAGE_PAGE, frame)
    form, status = testmessages.blank_form(request, queue), 200
    if testmessages.FILL in request.POST:
        form = testmessages.filled(request)
    elif request.method == "POST":
        form, status = testmessages.TestMessageForm(request.POST), 422
        author = Author(actor_of(request), request.POST.get("reason", "")[:500])
        message_id = testmessages.sent(form, queue, author)
        if message_id is not None:
            return SeeOther(path.outcome(message_id))
    return testmessages.show_form(
        request, queue, form, template=MESSAGE_PAGE, frame=frame, status=status
    )


@needs(Right.VIEW, Right.CONFIGURE)
def outcome(request: HttpRequest, message_id: str) -> HttpResponse:
    """The message on its way; at its end, where to go from here."""
    found = testmessages.followed(request, message_id)
    path = path_of(request)
    template = "console/setup/partner_outcome.html"
    return testmessages.show_outcome(request, found, template, **_frame(path, steps.MESSAGE))


def _make(request: HttpRequest, name: str, noun: Noun, path: PartnerPath) -> HttpResponse:
    """Store what the form says, and go on with it."""
    refuse(noun.hindrance(request.user, founds=True))
    form = new_form(request, noun, request.POST)
    is_good = form.is_valid()
    if TRY in request.POST:
        return _show(request, name, path, form=form)
    if not (is_good and _stored(form, Author(actor_of(request), form.why))):
        return _show(request, name, path, form=form, status=422)
    messages.success(request, f"{form.instance} is there.")
    further = path.with_row(name, form.instance)
    return SeeOther(further.address(name if name in STAYS else NEXT[name]))


def _stored(form: SetupForm, author: Author) -> bool:
    try:
        configuration.save(form.instance, author)
    except IntegrityError:
        form.instance.pk = None
        form.add_error(None, "Somebody else has just taken this name. Choose another one.")
        return False
    return True


def _store_into(request: HttpRequest, path: PartnerPath) -> HttpResponse:
    """Let the chosen service store into the chosen structure."""
    refuse(steps.NOUNS[steps.SERVICE].hindrance(request.user))
    service: EnterpriseService = path.row(steps.SERVICE)
    service.structure = path.row(steps.STRUCTURE) or service.structure
    configuration.save(service, Author(actor_of(request), "New partner: the structure takes it."))
    return SeeOther(path.address(steps.SERVICE))


def _show(
    request: HttpRequest,
    name: str,
    path: PartnerPath,
    *,
    form: SetupForm | None = None,
    tested: bool = False,
    status: int = 200,
) -> HttpResponse:
    noun, chosen = steps.NOUNS[name], path.row(name)
    hindrance = noun.hindrance(request.user, founds=True)
    if form is None:
        form = new_form(request, noun, None)
        _prefill(form, name, path)
        form.closed_by(hindrance)
    form.lay_out()
    context = {
        **_frame(path, name),
        "noun": noun,
        "form": form,
        "hindrance": hindrance,
        "chosen": chosen,
        "offered": [
            (row, path.with_row(name, row).address(name if name in STAYS else NEXT[name]))
            for row in noun.rows(scope_of(request.user))[:50]
        ],
        "next": path.address(NEXT[name]),
        "structure_address": path.address(steps.STRUCTURE),
        **_look(name, chosen, form, tested=tested),
    }
    return render(request, "console/setup/partner_step.html", context, status=status)


def _prefill(form: SetupForm, name: str, path: PartnerPath) -> None:
    structure = path.row(steps.STRUCTURE)
    if name == steps.SERVICE and structure is not None:
        form.initial["structure"] = structure.pk


def _look(name: str, chosen: object, form: SetupForm, *, tested: bool) -> dict[str, object]:
    """What is to be looked at before going on: the connection, who takes the messages, a sample."""
    if name == steps.PROVIDER and tested and chosen is not None:
        return {"tested": examination.examined(chosen)}  # type: ignore[arg-type] # a provider
    if name == steps.SERVICE and isinstance(chosen, EnterpriseService):
        nobody = chosen.structure is None and takers.handler_of(chosen.interface) is None
        return {
            "taker": takers.effect(chosen.interface, chosen.structure),
            "nobody_takes": nobody,
        }
    if name == steps.STRUCTURE and form.is_bound:
        tried = getattr(form, "tried", None)
        return {"tried": None if tried is None else tried()}
    return {}


def _queue(request: HttpRequest, path: PartnerPath) -> HttpResponse:
    """Step four: the queues' own form, with what has a good default folded away."""
    scope = scope_of(request.user)
    if request.method != "POST":
        return _show_queue(request, path, GuidedQueueForm(instance=path.begun_queue(), scope=scope))
    shows = queues.SHOW in request.POST
    form = GuidedQueueForm(request.POST, scope=scope, asks_broker=not shows)
    is_good = form.is_valid()
    if shows:
        return _show_queue(request, path, form)
    if is_good and queues.made(form, Author(actor_of(request), form.why)):
        messages.success(request, queues.told(form.instance))
        return SeeOther(path.with_row(steps.QUEUE, form.instance).address(steps.MESSAGE))
    return _show_queue(request, path, form, status=422)


def _show_queue(
    request: HttpRequest, path: PartnerPath, form: GuidedQueueForm, *, status: int = 200
) -> HttpResponse:
    form.lay_out()
    system = path.row(steps.SYSTEM)
    known = [] if system is None else list(system.queues.filter(direction="inbound")[:50])
    context = {
        **_frame(path, steps.QUEUE),
        "form": form,
        "effects": effects_of(form, asks_broker=form.is_bound),
        "effects_address": queues.effects_address(""),
        "is_asked": form.is_bound,
        "is_new": True,
        "offered": [(q, path.with_row(steps.QUEUE, q).address(steps.MESSAGE)) for q in known],
    }
    return render(request, "console/setup/partner_queue.html", context, status=status)


def _frame(path: PartnerPath, current: str) -> dict[str, object]:
    shown = steps.SERVICE if current == steps.STRUCTURE else current
    return {
        "stepper": path.stepper(shown),
        "number": list(steps.STEPS).index(shown) + 1,
        "step": current,
        "path": path,
        "queue_step": path.address(steps.QUEUE),
        "service_step": path.address(steps.SERVICE),
    }
