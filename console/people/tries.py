"""How often somebody may try to log in: counted by name and by address, in Valkey."""

import hashlib
import logging
import unicodedata
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import redis
from django.conf import settings

from integration.errors import IntegrationError
from integration.http_api.pace import counters

log = logging.getLogger(__name__)
# Many people may share an address, behind an office's router; nobody shares a name.
NAMES_OF_AN_ADDRESS: Final = 5
# Who is asked for a code has shown the password: guessing goes on for days, mistakes do not.
WRONG_CODES_A_DAY: Final = 20
DAY_SECONDS: Final = 86_400
# A longer wait is told in hours.
MOST_MINUTES: Final = 120


class TooManyLoginsError(IntegrationError):
    """Too many logins failed under this name, or from this address."""

    code: ClassVar[str] = "TOO_MANY_LOGINS"

    def __init__(self, seconds_left: int) -> None:
        super().__init__(
            "Too many logins failed for this name or from this address, so no further one is "
            "looked at for now.",
            next_step=f"Try again in {_in_words(seconds_left)}.",
        )
        self.seconds_left = seconds_left


def count_try(name: str, address: str) -> None:
    """Count a try before its password is looked at, so that tries made at once are counted, too.

    Raises TooManyLoginsError beyond the number of tries. Without Valkey nobody is refused: people
    need the console most when something is down.
    """
    most = settings.SLUICE_LOGIN_TRIES
    # A server on a Unix socket names no peer; then only the name is counted.
    of_address = [(_key("address", address), most * NAMES_OF_AN_ADDRESS)] if address else []
    _count([(_key("name", name), most), *of_address], settings.SLUICE_LOGIN_WINDOW_SECONDS)


def forgive(name: str, address: str) -> None:
    """The login succeeded: forget the name's failures, and do not count this try as one."""
    window = settings.SLUICE_LOGIN_WINDOW_SECONDS
    _uncount(_key("address", address), window, _key("name", name))


def count_code(person: str) -> None:
    """Count a second factor before it is looked at; a right one is taken off again.

    By the person, however they write their name, and for a day: in each window of logins a
    known password would allow some more. Raises TooManyLoginsError.
    """
    _count([(_key("code", person), WRONG_CODES_A_DAY)], DAY_SECONDS)


def forgive_code(person: str) -> None:
    """This one was right. The wrong ones stay counted: they may be somebody else's."""
    _uncount(_key("code", person), DAY_SECONDS)


def count_nameless(address: str) -> None:
    """Count a try that names nobody, by address alone: a company login, a one-time code.

    A company login keeps a session until it comes back. Raises TooManyLoginsError.
    """
    if address:
        most = settings.SLUICE_LOGIN_TRIES * NAMES_OF_AN_ADDRESS
        _count([(_key("nameless", address), most)], settings.SLUICE_LOGIN_WINDOW_SECONDS)


def forgive_nameless(address: str) -> None:
    """Somebody got in by it."""
    if address:
        _uncount(_key("nameless", address), settings.SLUICE_LOGIN_WINDOW_SECONDS)


def _count(limits: Sequence[tuple[str, int]], window: int) -> None:
    try:
        waits = [_wait(key, most, window) for key, most in limits]
    except redis.RedisError as failure:
        _log(failure)
        return
    if any(waits):
        raise TooManyLoginsError(max(waits))


def _uncount(key: str, window: int, *forgotten: str) -> None:
    """Take one off this count, and forget others."""
    try:
        pipeline = counters(settings.SLUICE_CELERY_BROKER_URL).pipeline(transaction=False)
        if forgotten:
            pipeline.delete(*forgotten)
        # A window that ended meanwhile would leave a number below 0 that never expires.
        pipeline.set(key, 1, ex=window, nx=True)
        pipeline.decr(key)
        pipeline.execute()
    except redis.RedisError as failure:
        _log(failure)


def _wait(key: str, most: int, window: int) -> int:
    """Count one; for how many seconds there is to wait, 0 = not at all."""
    client: Any = counters(settings.SLUICE_CELERY_BROKER_URL)
    pipeline = client.pipeline(transaction=True)
    # The window begins with its first try and is not prolonged by those refused in it.
    pipeline.set(key, 0, ex=window, nx=True)
    pipeline.incr(key)
    pipeline.ttl(key)
    _, tries, left = pipeline.execute()
    return max(int(left), 1) if int(tries) > most else 0


def _key(kind: str, value: str) -> str:
    # What the form takes for the same account is the same here: it strips and normalises, too.
    same = unicodedata.normalize("NFKC", value.strip()).strip().casefold().encode()
    # Who types a password into the field of the name does not find it in Valkey.
    return f"sluice:login:{kind}:{hashlib.sha256(same).hexdigest()[:32]}"


def _in_words(seconds: int) -> str:
    minutes = -(-seconds // 60)
    if minutes > MOST_MINUTES:
        return f"{-(-minutes // 60)} hours"
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def _log(failure: Exception) -> None:
    log.warning("logins are not counted: Valkey does not answer (%s)", type(failure).__name__)
