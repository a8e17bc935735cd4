"""What people do with an endpoint at work: each verb is a POST to a small resource of its own."""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse

from console.delivering.forms import PauseForm
from console.delivering.pages import show_endpoint
from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, see_again, tell_problem
from integration.actions import endpoint_switches
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.selectors.delivering import endpoints

Verb = Callable[[int, Author], None]


def _verb(verb: Verb, done: str) -> Callable[[HttpRequest, str], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, name: str) -> HttpResponse:
        if request.method != "POST":
            return see("delivery-endpoint", name)
        reason = request.POST.get("reason", "")[:200]
        return _carried_out(request, name, verb, reason, done)

    return view


def _carried_out(
    request: HttpRequest, name: str, verb: Verb, reason: str, done: str
) -> HttpResponse:
    try:
        verb(_id(request, name), Author(actor_of(request), reason))
    except IntegrationError as problem:
        tell_problem(request, problem)
        return show_endpoint(request, name, status=409)
    messages.success(request, done)
    return see_again(request, "delivery-endpoint", name)


@needs(Right.VIEW, Right.OPERATE)
def pause(request: HttpRequest, name: str) -> HttpResponse:
    """Until a time; what cannot be read is told beside its field."""
    if request.method != "POST":
        return see("delivery-endpoint", name)
    _id(request, name)
    form = PauseForm(request.POST)
    if not form.is_valid():
        return show_endpoint(request, name, status=422, form=form)
    until = form.until()

    def paused(endpoint_id: int, author: Author) -> None:
        endpoint_switches.pause(endpoint_id, author, until=until)

    done = f"Paused until {until:%H:%M} UTC. What waits for it stays in Kafka."
    return _carried_out(request, name, paused, form.cleaned_data["reason"], done)


resume = _verb(endpoint_switches.resume, "The pause is over. What waits goes out within seconds.")
enable = _verb(
    partial(endpoint_switches.switch, to_on=True),
    "Switched on. What waits goes out within seconds.",
)
disable = _verb(
    partial(endpoint_switches.switch, to_on=False),
    "Switched off. What waits for it stays in Kafka until it expires.",
)


def _id(request: HttpRequest, name: str) -> int:
    found = endpoints.id_of(name, scope_of(request.user))
    if found is None:
        raise Http404(f"There is no endpoint {name}.")
    return found
