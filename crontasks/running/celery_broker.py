"""Whether the broker of Celery answers: asked of itself, within two seconds."""

from typing import Final

from kombu.exceptions import OperationalError

from crontasks.celery_app import app

ASK_SECONDS: Final = 2
_LIMITS: Final = {
    "max_retries": 0,
    "socket_connect_timeout": ASK_SECONDS,
    "socket_timeout": ASK_SECONDS,
}


def silence() -> str | None:
    """Return why it does not answer, in its client's words, which may name hosts; else None."""
    try:
        with app.connection_for_write(transport_options=_LIMITS) as connection:
            connection.ensure_connection(max_retries=0, errback=None)
    except (OSError, OperationalError) as e:
        return str(e) or type(e).__name__
    return None
