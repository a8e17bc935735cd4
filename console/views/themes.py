"""Light, dark, or as the system says: kept in a cookie, so that it works without JavaScript."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.answers import see_again
from console.frame import THEME_COOKIE, THEMES

YEAR_SECONDS = 365 * 24 * 3_600


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    answer = see_again(request, "overview")
    theme = request.POST.get("theme", "")
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, max_age=YEAR_SECONDS, samesite="Lax", httponly=True)
    return answer
