"""Audit rows for people who change nothing."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from django.conf import settings
from django.http import HttpRequest

from integration.actions import access
from integration.actions.access import LONGEST_TYPED, Access, Act

SESSION: Final = "session"
NO_FACTS: Final[Mapping[str, str]] = MappingProxyType({})
OVER: Final = "The session had lasted, or was idle, for too long."


def note_view(request: HttpRequest, kind: str, subject: object, name: str) -> None:
    """A payload is shown. `kind` is the model's name of what has it."""
    _note(request, Act.VIEW, kind=kind, subject=str(subject), name=name)


def note_download(request: HttpRequest, kind: str, subject: object, name: str) -> None:
    """A file is handed out."""
    _note(request, Act.DOWNLOAD, kind=kind, subject=str(subject), name=name)


def note_reveal(
    request: HttpRequest, about: tuple[str, str, str], reason: str, paths: Sequence[str]
) -> None:
    """Masked values of a message are shown. `about` is its kind, its number and its name."""
    kind, subject, name = about
    facts = {"paths": ", ".join(paths)}
    _note(request, Act.REVEAL, facts, kind=kind, subject=subject, name=name, reason=reason)


def note_refusal(request: HttpRequest, why: str) -> None:
    """A right is missing, or what was asked for is out of the person's reach."""
    # Its query may hold what was typed; the path says what was asked for.
    _note(request, Act.REFUSE, kind="page", name=f"{request.method} {request.path}", reason=why)


def note_login(request: HttpRequest, act: Act, typed: str, why: str = "") -> None:
    """A try to log in, under the name that was typed; `why` says by what, or why not."""
    _note(request, act, kind=SESSION, name=typed[:LONGEST_TYPED], reason=why)


def note_logout(request: HttpRequest, name: str, why: str = "") -> None:
    """The session of this person is over."""
    _note(request, Act.LOGOUT, actor=name, kind=SESSION, name=name, reason=why)


def note_ended(request: HttpRequest, name: str, count: int) -> None:
    """An administrator has logged this person out everywhere."""
    why = f"{count} sessions were ended by an administrator."
    _note(request, Act.LOGOUT, kind=SESSION, name=name, reason=why)


def _note(
    request: HttpRequest,
    act: Act,
    more: Mapping[str, str] = NO_FACTS,
    *,
    actor: str | None = None,
    **what: str,
) -> None:
    who = request.user.get_username() if actor is None else actor
    # A server on a Unix socket without a proxy knows no address.
    address = address_of(request)
    facts = {"address": address, **more} if address else dict(more)
    access.note(Access(act=act, actor=who, facts=facts, **what))


def address_of(request: HttpRequest) -> str:
    """The client's address: of X-Forwarded-For only what our own proxies wrote is believed.

    Each proxy appends the peer it sees, so the client is as many places from the end as there are
    proxies; whatever stands before was sent by the client. Fewer places: a proxy was passed by.
    """
    peer = str(request.META.get("REMOTE_ADDR", ""))
    proxies = settings.SLUICE_PROXIES
    passed = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).split(",")
    return passed[-proxies].strip() or peer if 0 < proxies <= len(passed) else peer
