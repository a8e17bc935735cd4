"""Answers the HTTP API's addresses before sessions, cookies, forms or host names are looked at."""

import logging
import traceback
from collections.abc import Callable
from typing import Final

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, get_resolver

from console.http_api import answers
from console.server.limits import HTTP_API_PREFIXES
from integration.errors import IntegrationError
from integration.http_api.errors import HttpApiError, NoSuchAddressError

log = logging.getLogger(__name__)
ADDRESSES: Final = "console.http_api.urls"


class HttpApi:
    """Middleware that keeps partners' posts apart from people's pages.

    Nothing here reads a cookie, so nothing here needs a form's token against forged posts;
    everything asks for a token of its own. SLUICE_ALLOWED_HOSTS protects pages with links and
    forms, of which there are none here. After the redirection to TLS, before all else.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(HTTP_API_PREFIXES):
            return self.get_response(request)
        response = _answered(request)
        response["Content-Length"] = str(len(response.content))
        if request.method == "HEAD":
            response.content = b""
        return response


def _answered(request: HttpRequest) -> HttpResponse:
    """Whatever happens, an answer of the HTTP API's own."""
    try:
        return _answer(request)
    except HttpApiError as refusal:
        return answers.problem(refusal)
    except IntegrationError as failure:
        log.warning("the HTTP API is in trouble: %s", failure.code)
        return answers.trouble(failure)
    except DatabaseError as failure:
        # Its text may quote what was to be stored.
        log.warning("the HTTP API cannot store: %s at %s", *what_and_where(failure))
        return answers.no_database(request, failure)
    except Exception as mistake:  # noqa: BLE001 - a partner gets a problem, never a page
        log.error("the HTTP API failed: %s at %s", *what_and_where(mistake))  # noqa: TRY400 - a trace may quote payloads
        return answers.broken()


def _answer(request: HttpRequest) -> HttpResponse:
    if "\x00" in request.path_info:
        raise NoSuchAddressError
    try:
        match = get_resolver(ADDRESSES).resolve(request.path_info)
    except Resolver404:
        raise NoSuchAddressError from None
    response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    return response


def what_and_where(failure: Exception) -> tuple[str, str]:
    """The exception's name and the lines it came through, without any value."""
    frames = traceback.extract_tb(failure.__traceback__)[-3:]
    return type(failure).__name__, ", ".join(f"{f.filename}:{f.lineno}" for f in frames)
