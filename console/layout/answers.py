"""Answers of verbs: the page again, with a sentence on what was done or why not."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.urls import get_script_prefix
from django.utils.encoding import iri_to_uri
from django.utils.http import MAX_URL_REDIRECT_LENGTH, url_has_allowed_host_and_scheme

from integration.actions.reasons import cut
from integration.errors import IntegrationError


class BadVersionError(BadRequest):
    """The form's version is missing or no number: the form was not made by this console."""

    def __init__(self) -> None:
        super().__init__(
            "The form does not say which version it was made from: its field “version” is missing "
            "or not a number. Open the page again and use the buttons there."
        )


class SeeOther(HttpResponseRedirect):
    """303: the browser asks for the page with GET, and a reload repeats nothing."""

    status_code = 303


def see(to: str, *args: object) -> SeeOther:
    """Redirect to a named page."""
    return SeeOther(resolve_url(to, *args))


def see_part(part: str, to: str, *args: object) -> SeeOther:
    """Redirect to the part of a named page where what was asked for stands."""
    return SeeOther(f"{resolve_url(to, *args)}#{part}")


def see_list(to: str, query: str) -> SeeOther:
    """Redirect to a list under its filter, an urlencoded query or empty."""
    address = resolve_url(to)
    whole = f"{address}?{query}" if query else address
    return SeeOther(whole if len(whole) <= MAX_URL_REDIRECT_LENGTH else address)


def see_again(request: HttpRequest, to: str, *args: object) -> SeeOther:
    """Back to the page of this site named by the form's `next`, else to the named page."""
    wanted = own_page(request.POST.get("next", ""))
    return SeeOther(wanted) if wanted else see(to, *args)


def own_page(address: str) -> str:
    """The address if it is one of this site that a redirect may carry, else an empty text."""
    # By now the verb is done: an address that Django would refuse must not turn it into a failure.
    is_short = len(iri_to_uri(address)) <= MAX_URL_REDIRECT_LENGTH
    is_ours = url_has_allowed_host_and_scheme(address, allowed_hosts=None)
    return address if is_short and is_ours else ""


def tell_problem(request: HttpRequest, problem: IntegrationError) -> None:
    """Show on the next page why nothing was done."""
    messages.warning(request, str(problem))


def carried_out(
    request: HttpRequest,
    act: Callable[[], str],
    *,
    page: str,
    subject: object,
    shown: Callable[[IntegrationError], HttpResponse],
) -> HttpResponse:
    """See the page of the subject again, with the sentence that `act` returns once it is done.

    Where it was not done, `shown` is the page as it is now, which says why.
    """
    try:
        done = act()
    except IntegrationError as problem:
        if getattr(problem, "already_done", False):
            # A second click is no problem.
            messages.info(request, str(problem))
            return see_again(request, page, subject)
        tell_problem(request, problem)
        return shown(problem)
    messages.success(request, done)
    return see_again(request, page, subject)


def actor_of(request: HttpRequest) -> str:
    """The name that goes into the history."""
    return request.user.get_username()


def reason_of(request: HttpRequest) -> str:
    """Why the person who asks does it, from the form; cut, since a browser need not hold to it."""
    return cut(request.POST.get("reason", ""))


def origin_of(request: HttpRequest) -> str:
    """The address of the console, without a slash at its end."""
    return f"{request.scheme}://{request.get_host()}{get_script_prefix().rstrip('/')}"


def version_of(request: HttpRequest) -> int:
    """The version the person looked at. Raises BadVersionError, which is answered with a 400."""
    text = request.POST.get("version", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadVersionError
    return int(text)


def parse_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
