"""The limits of a login: an idle one and an absolute one."""

import time
from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from console.layout import trail
from console.people import sessions

BEGAN: Final = "sluice_began"
SEEN: Final = "sluice_seen"
# The session is a row of the database: not written with every page.
NOTED_SECONDS: Final = 60


def begin(sender: object, request: HttpRequest, user: User, **_: Any) -> None:  # noqa: ARG001 - a signal
    """Receives Django's `user_logged_in`: both limits begin, and the session is noted."""
    request.session[BEGAN] = request.session[SEEN] = int(time.time())
    way = getattr(request, sessions.WAY, sessions.Way.PASSWORD)
    request.session[sessions.WAY] = str(way)
    sessions.note(request, user, way)


def end(sender: object, request: HttpRequest, **_: Any) -> None:  # noqa: ARG001 - a signal
    """Receives Django's `user_logged_out`, while the session still has its key."""
    sessions.over(request.session.session_key)


class SessionLimits:
    """Middleware that ends sessions which were idle, or have lasted, for too long."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Asked of the session alone: whose it is, the views ask.
        if "_auth_user_id" not in request.session:
            return self.get_response(request)
        # A page that refreshes its figures by itself (htmx) says nothing of a person.
        is_by_itself = "HX-Request" in request.headers
        now = int(time.time())
        session = request.session
        if BEGAN not in session or SEEN not in session:
            session[BEGAN] = session[SEEN] = now
        if _is_over(session[BEGAN], session[SEEN], now):
            name = request.user.get_username()
            logout(request)
            trail.note_logout(request, name, trail.OVER)
            if is_by_itself:
                # The login would be put into the place of the figures.
                return HttpResponse(status=200, headers={"HX-Refresh": "true"})
        elif not is_by_itself and now - session[SEEN] >= NOTED_SECONDS:
            session[SEEN] = now
            sessions.seen(session.session_key)
        return self.get_response(request)


def _is_over(began: int, seen: int, now: int) -> bool:
    is_idle = now - seen > settings.SLUICE_SESSION_IDLE_MINUTES * 60
    return is_idle or now - began > settings.SLUICE_SESSION_HOURS * 3_600
