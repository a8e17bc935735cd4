"""Revealing one message: with a reason, for some minutes, to one session, and noted before."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from console.layout import trail
from console.layout.access import Right, has
from console.layout.answers import reason_of
from integration.errors import IntegrationError
from integration.masking.mask import Mask

MINUTES: Final = 10
# Of more messages at once nobody looks at each; the oldest are masked again.
MOST: Final = 20
KEPT: Final = "sluice_revealed"
SHORTEST_REASON: Final = 3


class RevealReasonError(IntegrationError):
    """A message was to be revealed without a reason."""

    code = "REVEAL_REASON"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was revealed: a reason is missing.",
            next_step="Say why you need to see the masked values; the audit keeps it.",
        )


def is_revealed(request: HttpRequest, kind: str, subject: object) -> bool:
    """Return whether this session may see this message unmasked now. A right that is gone ends it.

    `kind` and `subject` are those of the audit.
    """
    return revealed_until(request, kind, subject) is not None


def revealed_until(request: HttpRequest, kind: str, subject: object) -> datetime | None:
    """The moment at which it is masked again; None where it is masked now."""
    until = _kept(request).get(_name(kind, subject))
    if until is None or not may_reveal(request):
        return None
    return datetime.fromtimestamp(until, tz=timezone.get_default_timezone())


def may_reveal(request: HttpRequest) -> bool:
    return has(request.user, Right.VIEW_PAYLOAD) and has(request.user, Right.REVEAL)


def decide(
    request: HttpRequest,
    about: tuple[str, object, str],
    mask: Mask,
    back: Callable[[], HttpResponse],
) -> HttpResponse:
    """Reveal a message, or mask it again where the form says so. `about` is for the audit."""
    kind, subject, name = about
    if request.method != "POST":
        return back()
    kept = _kept(request)
    kept.pop(_name(kind, subject), None)
    if request.POST.get("to") == "mask":
        request.session[KEPT] = kept
        messages.success(request, "Masked again.")
        return back()
    reason = reason_of(request)
    if len(reason) < SHORTEST_REASON:
        messages.warning(request, str(RevealReasonError()))
        return back()
    # Noted first: what cannot be noted is not shown.
    trail.note_reveal(request, (kind, str(subject), name), reason, mask.parts)
    kept[_name(kind, subject)] = timezone.now().timestamp() + MINUTES * 60
    request.session[KEPT] = dict(list(kept.items())[-MOST:])
    messages.success(
        request, f"Revealed to you for {MINUTES} minutes; your reason is kept in the audit."
    )
    return back()


def _kept(request: HttpRequest) -> dict[str, float]:
    """What is revealed to this session and has not run out. Programs have no session."""
    session = getattr(request, "session", None)
    kept = {} if session is None else session.get(KEPT, {})
    now = timezone.now().timestamp()
    return {name: until for name, until in kept.items() if until > now}


def _name(kind: str, subject: object) -> str:
    return f"{kind}:{subject}"
