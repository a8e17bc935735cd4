"""The page for a request that cannot be understood: why, and that nothing was changed."""

from django.core.exceptions import BadRequest, DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

HOST = (
    "This console is not known under the name in the address. An administrator adds the name to "
    "SLUICE_ALLOWED_HOSTS."
)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler400`. Only our own sentences are repeated; others may quote the request."""
    why = HOST if isinstance(exception, DisallowedHost) else ""
    if isinstance(exception, BadRequest):
        why = f"{exception} Nothing was changed."
    return render(request, "400.html", {"why": why}, status=400)
