"""Where people are logged in: noted at each login, listed, and ended by themselves or for them."""

import re
from collections.abc import Iterable
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest

from console.layout.trail import address_of
from console.models import ConsoleSession
from integration.store.sessions import database_now

Way = ConsoleSession.Way
# How somebody came in: told to Django's login by the request, and kept in the session.
WAY: Final = "sluice_way"
# What a browser calls itself; the first that fits counts, since most name others too.
BROWSERS: Final = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS: Final = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class SessionRow(NamedTuple):
    """A session with what the page says of it."""

    session: ConsoleSession
    browser: str
    is_this: bool


def note(request: HttpRequest, person: User, way: str) -> None:
    """Note that this person's session begins; sessions that must be over by now are forgotten."""
    key = request.session.session_key
    if not key:
        return
    now = database_now()
    oldest = timedelta(hours=settings.SLUICE_SESSION_HOURS)
    ConsoleSession.objects.filter(began_at__lt=now - oldest).delete()
    ConsoleSession.objects.update_or_create(
        session_key=key,
        defaults={
            "person": person,
            "way": way,
            "began_at": now,
            "seen_at": now,
            "address": address_of(request)[:100],
            "agent": CONTROL.sub("", request.META.get("HTTP_USER_AGENT", ""))[:200],
        },
    )


def seen(key: str | None) -> None:
    """Note that the person of this session asked for a page."""
    ConsoleSession.objects.filter(session_key=key).update(seen_at=database_now())


def moved(old: str | None, new: str | None) -> bool:
    """Note that a session goes on under another key, as it does after a new password.

    Returns whether it is known: it may have been ended meanwhile.
    """
    return ConsoleSession.objects.filter(session_key=old).update(session_key=new) > 0


def over(key: str | None) -> None:
    """Forget a session that has ended by itself."""
    ConsoleSession.objects.filter(session_key=key).delete()


def sessions_of(person: User, this: str | None = None) -> list[SessionRow]:
    """The sessions of a person, the last used first."""
    idle = timedelta(minutes=settings.SLUICE_SESSION_IDLE_MINUTES)
    hours = timedelta(hours=settings.SLUICE_SESSION_HOURS)
    now = database_now()
    rows = ConsoleSession.objects.filter(
        person=person, seen_at__gte=now - idle, began_at__gte=now - hours
    )
    return [SessionRow(one, browser_of(one.agent), one.session_key == this) for one in rows]


def end(person: User, *, number: int | None = None, but: str | None = None) -> int:
    """End the sessions of a person at once, and return how many there were.

    With `number` that one alone; `but` is the key of one that stays.
    """
    rows = ConsoleSession.objects.filter(person=person)
    if number is not None:
        rows = rows.filter(pk=number)
    keys = [one.session_key for one in rows if one.session_key != but]
    _forget(keys)
    ConsoleSession.objects.filter(session_key__in=keys).delete()
    return len(keys)


def browser_of(agent: str) -> str:
    """Browser and system of what a browser says of itself.

    >>> browser_of("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
    'Firefox on Linux'
    >>> browser_of("curl/8.5.0"), browser_of("")
    ('curl/8.5.0', 'Unknown browser')
    """
    browser = next((name for sign, name in BROWSERS if sign in agent), "")
    system = next((name for sign, name in SYSTEMS if sign in agent), "")
    if browser and system:
        return f"{browser} on {system}"
    return browser or agent[:40] or "Unknown browser"


def _forget(keys: Iterable[str]) -> None:
    """Delete what Django keeps of these sessions: their next request is a stranger's."""
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore
    for key in keys:
        store(session_key=key).delete()
