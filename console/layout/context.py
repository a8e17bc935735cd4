"""The frame of every page: environment, theme, rights."""

from math import ceil
from typing import Final

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.layout.access import Right, has
from console.layout.navigation import sections
from console.layout.standby import LAG
from integration.restore.examining import open_count
from integration.selectors.deployment import standing

THEMES: Final = ("light", "dark", "system")
THEME_COOKIE: Final = "sluice_theme"
# How often pages with figures ask for fresh ones; 0 = only when the person asks.
REFRESH_SECONDS: Final = (0, 5, 15, 30, 60)
REFRESH_COOKIE: Final = "sluice_refresh"
REFRESH_USUAL: Final = 5
LIVE_SECONDS: Final = 2
MISSING: Final = {right.name.lower(): right.missing for right in Right}
TONES: Final = {"production": "red", "prod": "red", "staging": "orange", "test": "orange"}


def frame(request: HttpRequest) -> dict[str, object]:
    """Context processor for all pages; pages of people who are not logged in get no queries."""
    theme = request.COOKIES.get(THEME_COOKIE, "system")
    # Absent where a middleware before the login one refuses the request.
    user = getattr(request, "user", AnonymousUser())
    is_known = user.is_authenticated
    environment = settings.SLUICE_ENVIRONMENT
    stands = standing() if is_known else None
    is_restored = stands is not None and stands.restore_id is not None
    return {
        "environment": environment,
        "environment_tone": TONES.get(environment.lower(), "azure"),
        "foreign_environment": stands.owner if stands is not None else None,
        "restore_decisions": open_count() if is_restored else None,
        # How old the page may be, where it was read from a standby.
        "standby_lag": ceil(lag) if (lag := getattr(request, LAG, None)) is not None else None,
        "theme": theme if theme in THEMES else "system",
        "themes": THEMES,
        "refresh": refresh_of(request),
        "refreshes": REFRESH_SECONDS,
        # Asked for by whole pages only: a part of a page has no menu.
        "menu": SimpleLazyObject(lambda: sections(user, request.path) if is_known else []),
        "may": {right.name.lower(): is_known and has(user, right) for right in Right},
        "missing": MISSING,
    }


def refresh_of(request: HttpRequest) -> int:
    """The seconds between two refreshes of figures; 0 = none."""
    chosen = request.COOKIES.get(REFRESH_COOKIE, "")
    known = {str(seconds): seconds for seconds in REFRESH_SECONDS}
    return known.get(chosen, REFRESH_USUAL)


def live_seconds_of(request: HttpRequest) -> int:
    """The same for what is under way: more often, unless the person wants no refresh."""
    return min(refresh_of(request), LIVE_SECONDS)
