"""What every page shows around its content: environment, theme, rights."""

from typing import Final

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from console.access import Right, has
from integration.selectors.deployment import foreign_environment

THEMES: Final = ("light", "dark", "system")
THEME_COOKIE: Final = "sluice_theme"
TONES: Final = {"production": "red", "prod": "red", "staging": "orange", "test": "orange"}


def frame(request: HttpRequest) -> dict[str, object]:
    """Context processor for all pages; pages of people who are not logged in get no queries."""
    theme = request.COOKIES.get(THEME_COOKIE, "system")
    # Absent where a middleware before the login one refuses the request.
    user = getattr(request, "user", AnonymousUser())
    is_known = user.is_authenticated
    environment = settings.SLUICE_ENVIRONMENT
    return {
        "environment": environment,
        "environment_tone": TONES.get(environment.lower(), "azure"),
        "foreign_environment": foreign_environment() if is_known else None,
        "theme": theme if theme in THEMES else "system",
        "themes": THEMES,
        "may": {right.name.lower(): is_known and has(user, right) for right in Right},
        "missing": {right.name.lower(): right.missing for right in Right},
    }
