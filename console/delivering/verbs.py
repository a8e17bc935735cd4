"""Verbs of an endpoint at work: each is a POST to a small resource of its own."""

from collections.abc import Callable
from functools import partial

from django.http import Http404, HttpRequest, HttpResponse

from console.delivering.forms import PauseForm
from console.delivering.pages import show_endpoint
from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, carried_out, see
from integration.actions import endpoint_switches
from integration.actions.configuration import Author
from integration.selectors.delivering import endpoints

Verb = Callable[[int, Author], None]


def _verb(verb: Verb, done: str) -> Callable[[HttpRequest, str], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, name: str) -> HttpResponse:
        if request.method != "POST":
            return see("delivery-endpoint", name)
        return _carried_out(request, name, verb, done)

    return view


def _carried_out(request: HttpRequest, name: str, verb: Verb, done: str) -> HttpResponse:
    endpoint_id = _id(request, name)

    def act() -> str:
        reason = request.POST.get("reason", "").strip()[:200]
        verb(endpoint_id, Author(actor_of(request), reason))
        return done

    return carried_out(
        request,
        act,
        page="delivery-endpoint",
        subject=name,
        shown=lambda _: show_endpoint(request, name, status=409),
    )


@needs(Right.VIEW, Right.OPERATE)
def pause(request: HttpRequest, name: str) -> HttpResponse:
    """Until a time; a mistake is shown beside its field."""
    if request.method != "POST":
        return see("delivery-endpoint", name)
    _id(request, name)
    form = PauseForm(request.POST)
    if not form.is_valid():
        return show_endpoint(request, name, status=422, form=form)
    until = form.until()
    done = f"Paused until {until:%H:%M} UTC. Waiting messages stay in Kafka."
    return _carried_out(request, name, partial(endpoint_switches.pause, until=until), done)


resume = _verb(
    endpoint_switches.resume, "The pause is over. Waiting messages are sent within seconds."
)
enable = _verb(
    partial(endpoint_switches.switch, to_on=True),
    "Switched on. Waiting messages are sent within seconds.",
)
disable = _verb(
    partial(endpoint_switches.switch, to_on=False),
    "Switched off. Waiting messages stay in Kafka until they expire.",
)


def _id(request: HttpRequest, name: str) -> int:
    endpoint_id = endpoints.id_of(name, scope_of(request.user))
    if endpoint_id is None:
        raise Http404(f"There is no endpoint {name}.")
    return endpoint_id
