"""The HTTP API's addresses: each asks who it is, reads what came, answers what the domain says."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import get_script_prefix

from console.http_api import openapi
from console.http_api.answers import posted
from console.http_api.reading import caller_at, post_in
from integration.http_api.accepting import accept, publish_post
from integration.http_api.at_once import run_at_once
from integration.http_api.bodies import pieces
from integration.http_api.errors import WrongMethodError
from integration.http_api.fate import fate_of
from integration.http_api.routes import queue_for
from integration.models.http_api import Doing


def esqueue(
    request: HttpRequest, system: str, service: str, *, is_legacy: bool = False
) -> HttpResponse:
    """Put the messages of the body into the queue of the service; 202 once they are durable."""
    only(request, "POST")
    caller = caller_at(request, is_legacy_path=is_legacy)
    caller.need(Doing.POST, service, system=system)
    queue = queue_for(caller.system_id, caller.system, service)
    post = post_in(request, caller, service, "esqueue")
    return posted(post, lambda: accept(post, pieces(post), queue))


def es(request: HttpRequest, system: str, service: str, *, is_legacy: bool = False) -> HttpResponse:
    """Run the service at once; 200 with what it ended in, or why it failed."""
    only(request, "POST")
    caller = caller_at(request, is_legacy_path=is_legacy)
    caller.need(Doing.CALL, service, system=system)
    post = post_in(request, caller, service, "es")
    return posted(post, lambda: run_at_once(post, pieces(post)))


def publish(request: HttpRequest, channel: str) -> HttpResponse:
    """Publish the body to a channel; 202 once its messages are durable."""
    only(request, "POST")
    caller = caller_at(request)
    caller.need(Doing.PUBLISH, channel)
    post = post_in(request, caller, channel, "publish")
    return posted(post, lambda: publish_post(post))


def message(request: HttpRequest, system: str, message_id: str) -> HttpResponse:
    """The fate of a message of this system, by its id or the sender's own."""
    only(request, "GET", "HEAD")
    caller = caller_at(request)
    caller.need(Doing.READ, system=system)
    return JsonResponse(fate_of(caller.system_id, message_id, caller.services))


def document(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document: what it says is no secret."""
    only(request, "GET", "HEAD")
    prefix = get_script_prefix()
    # Its paths are as they are where the console is all there is.
    servers = {} if prefix == "/" else {"servers": [{"url": prefix.rstrip("/")}]}
    return JsonResponse({**openapi.document(), **servers}, content_type="application/json")


def only(request: HttpRequest, *methods: str) -> None:
    """Raises WrongMethodError for any other method."""
    if request.method not in methods:
        raise WrongMethodError(", ".join(methods))
