"""Preferences of a person: colours and the refresh interval. Cookies, so no JavaScript."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.layout.answers import see_again
from console.layout.context import REFRESH_COOKIE, REFRESH_SECONDS, THEME_COOKIE, THEMES

YEAR_SECONDS = 365 * 24 * 3_600


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    answer = see_again(request, "overview")
    theme = request.POST.get("theme", "")
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, max_age=YEAR_SECONDS, samesite="Lax", httponly=True)
    return answer


@require_POST
def choose_refresh(request: HttpRequest) -> HttpResponse:
    answer = see_again(request, "overview")
    seconds = request.POST.get("seconds", "")
    if seconds in {str(known) for known in REFRESH_SECONDS}:
        answer.set_cookie(
            REFRESH_COOKIE, seconds, max_age=YEAR_SECONDS, samesite="Lax", httponly=True
        )
    return answer
