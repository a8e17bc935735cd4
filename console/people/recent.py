"""A login that is recent: asked for before something that outlasts the session, as a token does."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from console.people.session_limits import BEGAN

# When the person last proved within this session who they are.
CONFIRMED: Final = "sluice_confirmed"
RECENT_SECONDS: Final = 1_800


def is_recent(request: HttpRequest) -> bool:
    """Whether the person has logged in, or confirmed it, within half an hour.

    In another project the login is the project's, and so is what it asks for again.
    """
    if settings.SLUICE_IS_GUEST:
        return True
    last: int = max(request.session.get(name, 0) for name in (BEGAN, CONFIRMED))
    return time.time() - last < RECENT_SECONDS


def confirm(request: HttpRequest) -> None:
    """The person has just proved once more who they are."""
    request.session[CONFIRMED] = int(time.time())


def confirming(request: HttpRequest) -> str:
    """The address of the page that asks for the login again and leads back to this one."""
    return f"{reverse('confirm')}?{urlencode({'next': request.get_full_path()})}"


def needs_recent(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Lead whoever logged in too long ago to the page that asks for the login again."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if is_recent(request):
            return view(request, *args, **kwargs)
        return HttpResponseRedirect(confirming(request))

    return guarded
