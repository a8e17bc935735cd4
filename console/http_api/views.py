"""The HTTP API's addresses: each asks who it is, reads what came, tells what the domain says."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from console.http_api import openapi
from console.http_api.answers import told
from console.http_api.reading import body_of, caller_at, key_in, sender_id_in
from integration.http_api import receipts
from integration.http_api.accepting import accept
from integration.http_api.at_once import run_at_once
from integration.http_api.bodies import check_type, pieces
from integration.http_api.callers import Caller
from integration.http_api.fate import fate_of
from integration.http_api.pace import count_post
from integration.http_api.problems import WrongMethodError
from integration.http_api.publishing import publish_post
from integration.http_api.receipts import Post
from integration.http_api.routes import route_of
from integration.models.http_api import Doing
from integration.restore.adopting import refuse_if_held


def esqueue(
    request: HttpRequest, system: str, service: str, *, is_legacy: bool = False
) -> HttpResponse:
    """Put the messages of the body into the queue of the service; 202 once they are durable."""
    only(request, "POST")
    caller = caller_at(request, system, is_legacy_path=is_legacy)
    caller.need(Doing.POST, service)
    route = route_of(caller.system_id, caller.system, service)
    post, kind = _post(request, caller, service, "esqueue")
    known = receipts.earlier(post)
    if known is None:
        found = pieces(post.body, service, kind, caller.max_body_bytes)
        known = accept(post, found, route)
    return told(known, caller.system)


def es(request: HttpRequest, system: str, service: str, *, is_legacy: bool = False) -> HttpResponse:
    """Run the service at once; 200 with what it ended in, or why it failed."""
    only(request, "POST")
    caller = caller_at(request, system, is_legacy_path=is_legacy)
    caller.need(Doing.CALL, service)
    post, kind = _post(request, caller, service, "es")
    known = receipts.earlier(post)
    if known is None:
        found = pieces(post.body, service, kind, caller.max_body_bytes)
        known = run_at_once(post, found)
    return told(known, caller.system)


def publish(request: HttpRequest, channel: str) -> HttpResponse:
    """Publish the body to a channel; 202 once its messages are durable."""
    only(request, "POST")
    caller = caller_at(request, None)
    caller.need(Doing.PUBLISH, channel)
    post, _ = _post(request, caller, channel, "publish")
    known = receipts.earlier(post)
    return told(publish_post(post) if known is None else known, caller.system)


def message(request: HttpRequest, system: str, message_id: str) -> HttpResponse:
    """What became of a message of this system, by its id or the sender's own."""
    only(request, "GET", "HEAD")
    caller = caller_at(request, system)
    caller.need(Doing.READ)
    return JsonResponse(fate_of(caller.system_id, message_id))


def document(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document: what it says is no secret."""
    only(request, "GET", "HEAD")
    return JsonResponse(openapi.document(), content_type="application/json")


def only(request: HttpRequest, *methods: str) -> None:
    """Raises WrongMethodError for any other method."""
    if request.method not in methods:
        raise WrongMethodError(", ".join(methods))


def _post(request: HttpRequest, caller: Caller, service: str, address: str) -> tuple[Post, str]:
    """What was sent, with its announced format; refused before its body is read if it can be."""
    refuse_if_held()
    meta = request.META
    kind = check_type(meta.get("CONTENT_TYPE", ""), meta.get("HTTP_CONTENT_ENCODING", ""))
    sender_id, key = sender_id_in(request), key_in(request)
    count_post(caller.system_id, caller.requests_per_minute)
    post = Post(
        system_id=caller.system_id,
        system=caller.system,
        service=service,
        body=body_of(request, caller.max_body_bytes),
        address=address,
        sender_id=sender_id,
        key=key,
    )
    return post, kind
