"""What the browser may load and run: our own files, nothing inline, nothing from elsewhere."""

from collections.abc import Callable
from typing import Final

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

# Tabler draws its check marks and arrows as data: images.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
NUL: Final = {
    "title": "A field holds a NUL character",
    "why": "The database's text cannot hold one, so nothing was changed. Go back, take it out "
    "and send it again.",
}
NUL_COOKIE: Final = {
    "title": "A cookie holds a NUL character",
    "why": "This console never sets such a cookie, so nothing was done. Delete the cookies of this "
    "site in the browser and log in again.",
}


class ContentSecurityPolicy:
    """Middleware that sends the policy with every answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=()"
        )
        # Pages may show payloads: no cache keeps them. Static files set their own header.
        response.headers.setdefault("Cache-Control", "no-store")
        return response


class NoNulBytes:
    """Middleware that refuses a NUL in parameters and cookies: no text column can hold one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if any("\x00" in value for value in request.COOKIES.values()):
            # Whose session this is cannot even be asked.
            request.user = AnonymousUser()
            return render(request, "400.html", NUL_COOKIE, status=400)
        for parameters in (request.GET, request.POST):
            if any("\x00" in value for values in parameters.lists() for value in values[1]):
                return render(request, "400.html", NUL, status=400)
        return self.get_response(request)
