"""How often somebody may try to log in: counted by name and by address, in Valkey."""

import hashlib
import logging
import unicodedata
from typing import Any, ClassVar, Final

import redis
from django.conf import settings

from integration.errors import IntegrationError
from integration.http_api.pace import counters

log = logging.getLogger(__name__)
# Many people may share an address, behind an office's router; nobody shares a name.
NAMES_OF_AN_ADDRESS: Final = 5


class TooManyLoginsError(IntegrationError):
    """Too many logins failed under this name, or from this address."""

    code: ClassVar[str] = "TOO_MANY_LOGINS"

    def __init__(self, seconds_left: int) -> None:
        minutes = -(-seconds_left // 60)
        super().__init__(
            "Too many logins failed under this name or from this address, so no password is "
            "looked at for now.",
            next_step=f"Try again in {minutes} minute{'' if minutes == 1 else 's'}.",
        )
        self.seconds_left = seconds_left


def count_try(name: str, address: str) -> None:
    """Count a try before its password is looked at, so that tries made at once are counted, too.

    Raises TooManyLoginsError beyond the number of tries. Without Valkey nobody is refused: people
    need the console most when something is down.
    """
    most = settings.SLUICE_LOGIN_TRIES
    try:
        waits = [_wait(_key("name", name), most)]
        # A server on a Unix socket names no peer; then only the name is counted.
        if address:
            waits.append(_wait(_key("address", address), most * NAMES_OF_AN_ADDRESS))
    except redis.RedisError as failure:
        _tell(failure)
        return
    if any(waits):
        raise TooManyLoginsError(max(waits))


def forgive(name: str, address: str) -> None:
    """The login succeeded: forget the name's failures, and do not count this try as one."""
    window = settings.SLUICE_LOGIN_WINDOW_SECONDS
    try:
        pipeline = counters(settings.CELERY_BROKER_URL).pipeline(transaction=False)
        pipeline.delete(_key("name", name))
        # A window that ended meanwhile would leave a number below 0 that never expires.
        pipeline.set(_key("address", address), 1, ex=window, nx=True)
        pipeline.decr(_key("address", address))
        pipeline.execute()
    except redis.RedisError as failure:
        _tell(failure)


def _wait(key: str, most: int) -> int:
    """Count one; for how many seconds there is to wait, 0 = not at all."""
    client: Any = counters(settings.CELERY_BROKER_URL)
    pipeline = client.pipeline(transaction=True)
    # The window begins with its first try and is not prolonged by those refused in it.
    pipeline.set(key, 0, ex=settings.SLUICE_LOGIN_WINDOW_SECONDS, nx=True)
    pipeline.incr(key)
    pipeline.ttl(key)
    _, tries, left = pipeline.execute()
    return max(int(left), 1) if int(tries) > most else 0


def _key(kind: str, value: str) -> str:
    # Who types a password into the field of the name does not find it in Valkey.
    same = unicodedata.normalize("NFKC", value).casefold().encode()
    return f"sluice:login:{kind}:{hashlib.sha256(same).hexdigest()[:32]}"


def _tell(failure: Exception) -> None:
    log.warning("logins are not counted: Valkey does not answer (%s)", type(failure).__name__)
