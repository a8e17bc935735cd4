"""Limits for the browser: our own files, nothing inline, nothing from elsewhere."""

from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

# Tabler draws its check marks and arrows as data: images.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
NUL: Final = {
    "title": "A field contains a NUL character",
    "why": "The database cannot store one, so nothing was changed. Go back, remove it and send "
    "the form again.",
}
# A message of the size the engine reads, twice over: once as a file and once as text.
MOST_BYTES: Final = 32 * 2**20
TOO_MUCH: Final = "The request is too large"
# Beside a file its form has a few lines.
OF_THE_FORM_BYTES: Final = 2**20
NUL_COOKIE: Final = {
    "title": "A cookie contains a NUL character",
    "why": "This console never sets such a cookie, so nothing was done. Delete this site's cookies "
    "in the browser and log in again.",
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
    """Middleware that refuses what no form here sends: a NUL, or more than any message holds.

    No text column can hold a NUL, and an upload is written to disk before any view is asked.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or ""
        # An upload goes to the disk without passing through here; see console.bulk.uploads.
        is_upload = request.method == "POST" and request.path == reverse("bulk-uploads")
        most = largest_upload() if is_upload else MOST_BYTES
        if length.isdecimal() and (len(length) > 12 or int(length) > most):
            return render(request, "console/refusals/400.html", too_large(most), status=413)
        if any("\x00" in value for value in request.COOKIES.values()):
            # Whose session this is cannot even be asked.
            request.user = AnonymousUser()
            return render(request, "console/refusals/400.html", NUL_COOKIE, status=400)
        for parameters in (request.GET,) if is_upload else (request.GET, request.POST):
            if any("\x00" in value for values in parameters.lists() for value in values[1]):
                return render(request, "console/refusals/400.html", NUL, status=400)
        return self.get_response(request)


def largest_upload() -> int:
    """The most bytes that the form of an upload may have in all."""
    return int(settings.SLUICE_BULK_UPLOAD_MB) * 2**20 + OF_THE_FORM_BYTES


def too_large(most: int) -> dict[str, str]:
    """The title and reason for refusing a request of more than so many bytes."""
    if most == MOST_BYTES:
        why = (
            f"This console accepts at most {most // 2**20} MiB at once, which is more than any "
            "message the engine reads."
        )
    else:
        why = (
            f"This installation accepts uploads of at most {settings.SLUICE_BULK_UPLOAD_MB:,} MB "
            "(SLUICE_BULK_UPLOAD_MB)."
        )
    why = f"{why} Nothing was changed. Shorten the file and send it again."
    return {"title": TOO_MUCH, "why": why}
