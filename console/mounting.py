"""The console inside another project, below a prefix such as /ops/: `include("sluice.urls")`.

Its addresses have names of their own kind (`login`, `queues`, …), so they are not mixed with the
project's: a request below the prefix is answered by a table of addresses, and goes through a chain
of middleware, that the project's other requests do not meet. Who somebody is, their session and
messages are the project's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final, cast

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.exception import convert_exception_to_response
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import get_resolver, get_script_prefix, get_urlconf, set_script_prefix, set_urlconf
from django.utils import timezone, translation
from django.utils.decorators import decorator_from_middleware
from django.views.decorators.csrf import csrf_exempt

from console.api.entrance import OperatorApi
from console.http_api.entrance import HttpApi
from console.layout import context
from console.layout.bidi import PlainDirections
from console.layout.refusals import stale_form
from console.layout.security import ContentSecurityPolicy, NoNulBytes
from console.layout.standby import Wrote
from console.monitoring.health import Probes
from console.people.company.rechecks import CompanyRechecks

ADDRESSES: Final = "console.addresses"
# What the pages are written in, whatever the project speaks.
LANGUAGE: Final = "en-gb"
NEEDED: Final = {
    "session": "django.contrib.sessions.middleware.SessionMiddleware",
    "user": "django.contrib.auth.middleware.AuthenticationMiddleware",
    "_messages": "django.contrib.messages.middleware.MessageMiddleware",
}
Answering = Callable[[HttpRequest], HttpResponse]


class OwnForms(CsrfViewMiddleware):
    """Django's protection against forged forms, with the console's page about it."""

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        return stale_form(request, reason)


_own_forms: Final = decorator_from_middleware(OwnForms)


def frame(request: HttpRequest) -> dict[str, object]:
    """Context processor: what pages of the console have around them; of the project's, nothing."""
    is_ours = getattr(request, "urlconf", None) == ADDRESSES
    return context.frame(request) if is_ours else {}


# The project's own switch for all of its views must not put the console's into one transaction,
# nor ask partners for a login: each address says itself what it needs.
@csrf_exempt
@login_not_required
@transaction.non_atomic_requests
def mounted(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Answer a request below the prefix, of whose path `rest` is what comes after it."""
    for name, middleware in NEEDED.items():
        if not hasattr(request, name):
            raise ImproperlyConfigured(f"Sluice's console needs {middleware} in MIDDLEWARE.")
    prefix = request.path_info.removesuffix(rest)
    with _below(request, prefix):
        return _chain(request)


@contextmanager
def _below(request: HttpRequest, prefix: str) -> Iterator[None]:
    """Let paths, and addresses that are made meanwhile, begin behind the prefix."""
    urlconf, script, path_info = get_urlconf(), get_script_prefix(), request.path_info
    theirs = getattr(request, "urlconf", None)
    # A relative one is made complete when it is first asked for, and kept for the whole process.
    _ = settings.STATIC_URL, settings.MEDIA_URL
    request.path_info = f"/{path_info.removeprefix(prefix)}"
    request.urlconf = ADDRESSES
    set_urlconf(ADDRESSES)
    set_script_prefix(f"{script.rstrip('/')}{prefix}")
    try:
        with translation.override(LANGUAGE), timezone.override("UTC"):
            yield
    finally:
        set_script_prefix(script)
        set_urlconf(urlconf)
        request.path_info = path_info
        if theirs is None:
            del request.urlconf
        else:
            request.urlconf = theirs


def _answer(request: HttpRequest) -> HttpResponse:
    match = get_resolver(ADDRESSES).resolve(request.path_info)
    request.resolver_match = match
    response: Any = _own_forms(match.func)(request, *match.args, **match.kwargs)
    if callable(getattr(response, "render", None)):
        response = response.render()
    return cast("HttpResponse", response)


def _caught(answering: Answering) -> Answering:
    return cast("Answering", convert_exception_to_response(answering))


def _around(inner: Answering, middleware: Callable[[Answering], Answering]) -> Answering:
    return _caught(middleware(inner))


# From the innermost to the outermost, as in config.settings.
MIDDLEWARE: Final[Any] = (
    Wrote,
    CompanyRechecks,
    NoNulBytes,
    XFrameOptionsMiddleware,
    OperatorApi,
    HttpApi,
    Probes,
    PlainDirections,
    ContentSecurityPolicy,
)
_chain: Final[Answering] = reduce(_around, MIDDLEWARE, _caught(_answer))
