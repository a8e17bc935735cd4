"""The pages for requests that are refused, lead nowhere or fail: Django's handlers of errors."""

import sys
from typing import Final

from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.exceptions import SessionInterrupted
from django.core.exceptions import BadRequest, DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import render
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import get_script_prefix, reverse
from django.views.decorators.csrf import requires_csrf_token
from django.views.defaults import page_not_found, permission_denied

from console.layout import trail
from console.methods import SAFE_METHODS
from crontasks.running.outage import is_of_others, is_outage

PAGES: Final = "console/refusals/"
# A standby takes over within seconds; whoever looks at a page is to see that soon.
AGAIN_SECONDS: Final = "5"
HOST = (
    "This console does not answer under the host name in the address. An administrator can add the "
    "name to SLUICE_ALLOWED_HOSTS."
)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler400`. Only our own sentences are repeated; others may quote the request."""
    if isinstance(exception, SessionInterrupted):
        return _session_over(request)
    why = HOST if isinstance(exception, DisallowedHost) else ""
    if isinstance(exception, BadRequest):
        why = f"{exception} Nothing was changed."
    return render(request, f"{PAGES}400.html", {"why": why}, status=400)


def _session_over(request: HttpRequest) -> HttpResponse:
    """The session was ended meanwhile, as by a logout in another tab.

    Django notices when it writes the session after the view: whatever that did is committed.
    """
    # The page is a stranger's by now: no menu, no figures.
    request.user = AnonymousUser()
    is_read = _is_only_read(request)
    # Both lead to the login, and from there to what was asked for.
    back = request.get_full_path() if is_read else reverse("overview")
    where = {"acts": "" if is_read else "yes", "back": back}
    return render(request, f"{PAGES}session_over.html", where, status=400)


def _is_only_read(request: HttpRequest) -> bool:
    """Return whether the request changes nothing. The way back from a company login does."""
    found = request.resolver_match
    is_callback = found is not None and found.url_name == "company-callback"
    return request.method in SAFE_METHODS and not is_callback


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler403`: which right is missing, and a row of audit that it was asked for."""
    trail.note_refusal(request, str(exception))
    return permission_denied(request, exception, f"{PAGES}403.html")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler404`."""
    return page_not_found(request, exception, f"{PAGES}404.html")


@requires_csrf_token
def failed(request: HttpRequest) -> HttpResponse:
    """Django's `handler500`: a page that asks neither the database nor who it is for.

    Where it is the database that failed, or others at work in it were in the way: 503, and the page
    loads itself again if it is only read.
    """
    # Its own page, so that an error in the frame of the others cannot keep it from being shown.
    where = {"style": static("console/vendor/tabler.min.css"), "overview": get_script_prefix()}
    # Django calls this where it caught the failure, and does not hand it over.
    failure = sys.exc_info()[1]
    is_held_up = failure is not None and is_of_others(failure)
    if failure is None or not (is_held_up or is_outage(failure)):
        # What acts may have committed a step, or all but its answer, before the mistake.
        where["acts"] = "" if _is_only_read(request) else "yes"
        return HttpResponseServerError(render_to_string(f"{PAGES}500.html", where))
    where["held_up"] = "yes" if is_held_up else ""
    where["again"] = AGAIN_SECONDS if request.method in SAFE_METHODS else ""
    page = render_to_string(f"{PAGES}503.html", where)
    return HttpResponse(page, status=503, headers={"Retry-After": AGAIN_SECONDS})


def stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - as above
    """Django's `CSRF_FAILURE_VIEW`."""
    return render(request, f"{PAGES}stale_form.html", status=403)
