"""The check whether the broker of Celery answers: asked of itself, within two seconds."""

import time
from typing import Final

from celery import current_app
from kombu.exceptions import OperationalError

from crontasks.health.checks import Finding
from integration.selectors.queues.status import NO_BROKER

ASK_SECONDS: Final = 2
# One that is started again is there within moments, and nobody's matter.
AGAIN_SECONDS: Final = 2.0
_LIMITS: Final = {
    "max_retries": 0,
    "socket_connect_timeout": ASK_SECONDS,
    "socket_timeout": ASK_SECONDS,
}


def silence() -> str | None:
    """Return why it does not answer, in its client's words, which may name hosts; else None."""
    try:
        with current_app.connection_for_write(transport_options=_LIMITS) as connection:
            connection.ensure_connection(max_retries=0, errback=None)
    except (OSError, OperationalError) as e:
        return str(e) or type(e).__name__
    return None


def lasting_silence() -> str | None:
    """The same for a broker that is still away a moment later. Takes up to six seconds."""
    if silence() is None:
        return None
    time.sleep(AGAIN_SECONDS)
    return silence()


def look() -> Finding:
    """Check that it answers; `detail` is what the client said."""
    why = silence()
    if why is None:
        return "The Celery broker answers."
    return NO_BROKER._replace(detail=f"It said: {why.rstrip('.')}.")
