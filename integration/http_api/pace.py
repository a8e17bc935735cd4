"""The pace at which a system may post: counted in Valkey, for all processes together."""

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import redis
from django.conf import settings

from integration.http_api.errors import TooManyRequestsError

log = logging.getLogger(__name__)
WINDOW_SECONDS: Final = 60
PATIENCE_SECONDS: Final = 0.2
_SILENT_SECONDS: Final = 60.0


def count_post(
    system_id: int, per_minute: int | None, clock: Callable[[], float] = time.time
) -> None:
    """Count one post of a system in this minute. Raises TooManyRequestsError beyond its number.

    Nothing is asked where no number is set. Without Valkey nobody is refused: the limit protects
    from too much work, and to lose posts would be worse.
    """
    if per_minute is None:
        return
    now = clock()
    window = int(now // WINDOW_SECONDS)
    try:
        posts = _counted(f"sluice:http-api:{system_id}:{window}")
    except redis.RedisError as failure:
        _warn(failure)
        return
    if posts > per_minute:
        left = int((window + 1) * WINDOW_SECONDS - now) + 1
        raise TooManyRequestsError(per_minute, left)


def _counted(key: str) -> int:
    pipeline: Any = counters(settings.SLUICE_CELERY_BROKER_URL).pipeline(transaction=False)
    pipeline.incr(key)
    pipeline.expire(key, 2 * WINDOW_SECONDS)
    return int(pipeline.execute()[0])


@cache
def counters(url: str) -> Any:
    """One pool of connections a process, made at the first post: after the fork."""
    return redis.Redis.from_url(
        url, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS
    )


_warned_at: Final[list[float]] = []


def _warn(failure: Exception) -> None:
    """Log once a minute: a line for each post would only add to the trouble."""
    now = time.monotonic()
    if not _warned_at or now - _warned_at[0] >= _SILENT_SECONDS:
        _warned_at[:] = [now]
        log.warning("posts are not counted: Valkey does not answer (%s)", type(failure).__name__)
