"""Answers the operator API's addresses before sessions, cookies, forms or hosts are looked at."""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, get_resolver

from console.api import problems
from console.api.errors import BadInputError, NoSuchOperationError
from integration.http_api.errors import WrongMethodError

PREFIX: Final = "/operator/"
ADDRESSES: Final = "console.api.urls"
NUL: Final = "A value holds a NUL character, which the database cannot store."


class OperatorApi:
    """Middleware that keeps requests of programs apart from people's pages.

    Nothing here reads a cookie, so nothing here needs a form's token against forged posts: every
    operation asks for a personal token of its own.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(PREFIX):
            return self.get_response(request)
        return problems.answered(request, lambda: _answer(request))


def _answer(request: HttpRequest) -> HttpResponse:
    if "\x00" in request.path_info:
        raise NoSuchOperationError
    try:
        match = get_resolver(ADDRESSES).resolve(request.path_info)
    except Resolver404:
        raise NoSuchOperationError from None
    if any("\x00" in value for values in request.GET.lists() for value in values[1]):
        raise BadInputError(NUL)
    response: HttpResponse = match.func(request, *match.args, **match.kwargs)
    if response.status_code == 405:
        raise WrongMethodError(response.get("Allow", ""))
    return response
