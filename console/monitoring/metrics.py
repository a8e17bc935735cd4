"""/metrics: the figures for Prometheus, and who may read them."""

import hmac
from ipaddress import ip_address
from typing import Final

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.frame.access import Right, has, scope_of
from console.monitoring import exposition
from crontasks.health import metrics

# A proxy on this host is a loopback peer, too, whoever it speaks for.
FORWARDED: Final = (
    "HTTP_FORWARDED",
    "HTTP_VIA",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
)
REFUSED: Final = (
    "These figures name queues. Send `Authorization: Bearer` with the value of "
    "SLUICE_METRICS_TOKEN, or log in with the right to see queues and failures of every external "
    "system. Where no such token is set, they are also given to this host itself, without a proxy "
    "in between.\n"
)
NO_DATABASE: Final = "The database did not answer, so there are no figures. See /readyz.\n"


@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    if not (_is_trusted(request) or _may_see_all(request)):
        refused = HttpResponse(REFUSED, status=401, content_type="text/plain; charset=utf-8")
        refused["WWW-Authenticate"] = 'Bearer realm="sluice"'
        return refused
    try:
        figures = exposition.text(metrics.everything())
    except DatabaseError:
        return HttpResponse(NO_DATABASE, status=503, content_type="text/plain; charset=utf-8")
    return HttpResponse(figures, content_type=exposition.CONTENT_TYPE)


def _is_trusted(request: HttpRequest) -> bool:
    """By the token where one is set, else by coming from this host without a proxy."""
    token = settings.SLUICE_METRICS_TOKEN
    if token:
        sent = request.META.get("HTTP_AUTHORIZATION", "")
        return hmac.compare_digest(sent.encode(), f"Bearer {token}".encode())
    return not any(name in request.META for name in FORWARDED) and _is_loopback(
        request.META.get("REMOTE_ADDR", "")
    )


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        # A server on a Unix socket names no peer: whoever speaks through it is a proxy.
        return False


def _may_see_all(request: HttpRequest) -> bool:
    """A person whose sight is limited to some systems would read the names of all the others."""
    return has(request.user, Right.VIEW) and scope_of(request.user).is_whole
