"""Who came by the company login is asked about again, so that lost groups take rights away.

A page sends its person through the identity provider again, which mostly asks nothing of them.
"""

import time
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode

from console.layout.answers import SeeOther

# When the provider was last asked about the person, in seconds since 1970.
CHECKED: Final = "sluice_company_checked"
# After a provider that did not answer.
NEXT_TRY_SECONDS: Final = 60
# Where a person gets in or out.
DOORS: Final = ("login", "logout", "company-login", "company-callback", "company-connect", "theme")


def note(request: HttpRequest) -> None:
    """The provider has just told who this is."""
    request.session[CHECKED] = int(time.time())


def age(request: HttpRequest) -> float | None:
    """Seconds since the provider told of this person; None of who came in another way."""
    checked = request.session.get(CHECKED)
    return None if checked is None else time.time() - checked


def is_due(request: HttpRequest) -> bool:
    """Whether this session needs the provider's word again."""
    seconds = age(request)
    return seconds is not None and seconds > _limit()


def goes_on(request: HttpRequest) -> bool:
    """Let a session go on whose provider cannot be asked, and ask again in a minute.

    False where nobody is logged in by it. The session still ends at its absolute limit.
    """
    if request.user.is_anonymous or not is_due(request):
        return False
    request.session[CHECKED] = int(time.time() - _limit() + NEXT_TRY_SECONDS)
    return True


class CompanyRechecks:
    """Middleware that sends people to the identity provider again when it is time."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        seconds = age(request) if settings.SLUICE_OIDC_ISSUER else None
        if seconds is None or seconds <= _limit() or request.path in map(reverse, DOORS):
            return self.get_response(request)
        is_page = request.method == "GET" and "HX-Request" not in request.headers
        if not is_page and seconds <= 2 * _limit():
            # What was typed shall not be lost, nor figures replaced by a login: the next page asks.
            return self.get_response(request)
        if "HX-Request" in request.headers:
            return HttpResponse(status=200, headers={"HX-Refresh": "true"})
        back_to = request.get_full_path() if is_page else reverse("overview")
        to = f"{reverse('company-login')}?{urlencode({'next': back_to})}"
        return SeeOther(to)


def _limit() -> float:
    return float(settings.SLUICE_OIDC_RECHECK_MINUTES * 60)
