"""Warnings of `manage.py check --deploy` about the HTTP API."""

from typing import Any, Final

from django.conf import settings
from django.core import checks

OPEN: Final = checks.Warning(
    "Tokens are taken at /esqueue/, /es/, /api/, /meaweb/ and /operator/ without TLS: whoever sees "
    "the traffic can act in the name of a partner or of a person.",
    hint="Put a proxy that ends TLS in front and set SLUICE_HTTPS=1; see docs/http.md.",
    id="sluice.W001",
)


def tokens_need_tls(**_: Any) -> list[checks.Warning]:
    """Tokens travel in a header of every request."""
    return [] if settings.SECURE_SSL_REDIRECT else [OPEN]


def connect() -> None:
    """Have Django ask, with `check --deploy` only."""
    checks.register(tokens_need_tls, checks.Tags.security, deploy=True)
