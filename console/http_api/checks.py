"""Warnings of `manage.py check --deploy` about the HTTP API."""

from typing import Any, Final

from django.conf import settings
from django.core import checks

# In somebody's project Sluice's own switch has no effect.
HOW: Final = "SECURE_SSL_REDIRECT and SECURE_PROXY_SSL_HEADER in the project's settings"
HINT: Final = (
    "Put a proxy that ends TLS in front and set {}; see “The HTTP API” in the documentation."
)


def tokens_need_tls(**_: Any) -> list[checks.Warning]:
    """Tokens travel in a header of every request."""
    if settings.SECURE_SSL_REDIRECT:
        return []
    text = (
        "Tokens are taken at esqueue/, es/, api/, meaweb/ and operator/ (below the console's "
        "address) without TLS: whoever sees the traffic can act in the name of a partner or of a "
        "person."
    )
    hint = HINT.format(HOW if settings.SLUICE_IS_GUEST else "SLUICE_HTTPS=1")
    return [checks.Warning(text, hint=hint, id="sluice.W001")]


def connect() -> None:
    """Have Django ask, with `check --deploy` only."""
    checks.register(tokens_need_tls, checks.Tags.security, deploy=True)
