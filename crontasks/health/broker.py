"""The check whether the broker of Celery answers."""

import time
from typing import Final

from crontasks.health.checks import Finding
from crontasks.running.celery_broker import silence
from integration.selectors.queues.status import NO_BROKER

# One that is started again is there within moments, and nobody's matter.
AGAIN_SECONDS: Final = 2.0


def lasting_silence() -> str | None:
    """Return why it is still silent a moment later; else None. Takes up to six seconds."""
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
