"""Answers the HTTP API's addresses before sessions, cookies, forms or host names are looked at."""

import logging
from collections.abc import Callable
from typing import Final

from django.db import Error as AnyDatabaseError
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, get_resolver

from console.http_api import answers
from console.server.limits import HTTP_API_PREFIXES
from crontasks.running.outage import is_outage
from integration.errors import IntegrationError
from integration.handlers.failures import classify
from integration.handlers.traces import what_and_where
from integration.http_api.errors import HttpApiError, NoSuchAddressError
from integration.policy.failure import FailureClass

log = logging.getLogger(__name__)
# Beside conflicts: what the database gave up because of others at work in it.
IN_THE_WAY: Final = frozenset({"LOCK_NOT_AVAILABLE", "STATEMENT_TIMEOUT"})
# What a row refers to may have been deleted, and what it is to be may have been stored, since it
# was looked up. Or that is so every time, which somebody has to mend.
OVERTAKEN: Final = frozenset({"FOREIGN_KEY_VIOLATION", "UNIQUE_VIOLATION"})
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
    except AnyDatabaseError as failure:
        return _of_database(request, failure)
    except Exception as mistake:  # noqa: BLE001 - a partner gets a problem, never a page
        log.error("the HTTP API failed: %s at %s", *what_and_where(mistake))  # noqa: TRY400 - a trace may quote payloads
        return answers.broken(request)


def _of_database(request: HttpRequest, failure: AnyDatabaseError) -> HttpResponse:
    """Tell an outage, what others were in the way of, and what the database does not take apart.

    Its text may quote what was to be stored, so the log has the place alone.
    """
    if is_outage(failure):
        log.warning("the HTTP API cannot store: %s at %s", *what_and_where(failure))
        return answers.no_database(request, failure)
    judged = classify(failure)
    if judged.kind is FailureClass.CONFLICT or judged.code in IN_THE_WAY:
        log.warning("the HTTP API was held up: %s at %s", *what_and_where(failure))
        return answers.held_up(judged.code)
    if judged.code in OVERTAKEN:
        log.error("the HTTP API was overtaken: %s at %s", *what_and_where(failure))
        return answers.held_up(judged.code)
    # Sent again as it is, it would be refused again: only a change here can help.
    log.error("the HTTP API is refused by the database: %s at %s", *what_and_where(failure))
    return answers.refused_by_database()


def _answer(request: HttpRequest) -> HttpResponse:
    if "\x00" in request.path_info:
        raise NoSuchAddressError
    try:
        match = get_resolver(ADDRESSES).resolve(request.path_info)
    except Resolver404:
        raise NoSuchAddressError from None
    response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    return response
