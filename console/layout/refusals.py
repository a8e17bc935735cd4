"""The pages for requests that are refused: not understood, or not permitted."""

from django.core.exceptions import BadRequest, DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import permission_denied

from console.layout import trail

HOST = (
    "This console does not answer under the host name in the address. An administrator can add the "
    "name to SLUICE_ALLOWED_HOSTS."
)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler400`. Only our own sentences are repeated; others may quote the request."""
    why = HOST if isinstance(exception, DisallowedHost) else ""
    if isinstance(exception, BadRequest):
        why = f"{exception} Nothing was changed."
    return render(request, "400.html", {"why": why}, status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler403`: which right is missing, and a row of audit that it was asked for."""
    trail.note_refusal(request, str(exception))
    return permission_denied(request, exception)
