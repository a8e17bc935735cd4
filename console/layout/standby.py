"""Pages that are read from a standby of the database: which may be, and when they are not.

Lists may be some seconds old; rights, decisions and what a person has just done may not.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, cast

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse

from console.methods import SAFE_METHODS
from integration.store.reads import reading_standby
from integration.store.replica import REPLICA

Arguments = ParamSpec("Arguments")
View = Callable[Concatenate[HttpRequest, Arguments], HttpResponse]
# Set with the answer to whatever may have written: until it is gone its author sees the primary.
WROTE_COOKIE: Final = "sluice_wrote"
LAG: Final = "standby_lag_seconds"


def from_standby(view: View[Arguments]) -> View[Arguments]:
    """Let a view that only reads do so from the standby, where there is one that is near enough.

    Put it inside of `needs`: whether somebody may see the page is asked of the primary.
    """

    @wraps(view)
    def read(
        request: HttpRequest, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> HttpResponse:
        lag = _lag_for(request)
        if lag is None:
            return view(request, *args, **kwargs)
        setattr(request, LAG, lag)
        try:
            with reading_standby():
                return view(request, *args, **kwargs)
        except Error as e:
            # It has gone, or gave way to what it replays: the same is read once more.
            REPLICA.failed(e)
            delattr(request, LAG)
            return view(request, *args, **kwargs)

    return cast("View[Arguments]", read)


def _lag_for(request: HttpRequest) -> float | None:
    if request.method not in SAFE_METHODS or WROTE_COOKIE in request.COOKIES:
        return None
    return REPLICA.lag_seconds()


class Wrote:
    """Middleware that remembers, with whoever has done something, that they did."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if settings.SLUICE_REPLICA and request.method not in SAFE_METHODS:
            response.set_cookie(
                WROTE_COOKIE,
                "1",
                max_age=max(int(settings.SLUICE_REPLICA_LAG_SECONDS), 1) + 1,
                httponly=True,
                samesite="Lax",
                secure=settings.SESSION_COOKIE_SECURE,
            )
        return response
