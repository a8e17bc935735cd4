"""Decisions about one failure: each verb is a POST to a small resource of its own."""

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse

from console.failures.pages import KIND, show_failure
from console.failures.waits import what_follows_release
from console.layout import reveals
from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, carried_out, reason_of, see, see_again, version_of
from integration.actions import dead_letters, failures
from integration.actions.errors import LateReleaseError
from integration.errors import IntegrationError
from integration.selectors.failures.failure import UNKNOWN, detail, is_known

# Takes the failure's id, and by keyword its version, who decided and why.
Verb = Callable[..., object]


@needs(Right.VIEW, Right.OPERATE)
def release(request: HttpRequest, error_id: UUID) -> HttpResponse:
    verb = partial(
        failures.release,
        late=request.POST.get("late") == "1",
        apply_as_newest=request.POST.get("apply_as_newest") == "1",
    )
    return _decided(
        request,
        error_id,
        verb,
        lambda: f"Released. {what_follows_release(error_id, scope_of(request.user))}",
    )


def _verb(verb: Verb, done: str) -> Callable[[HttpRequest, UUID], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, error_id: UUID) -> HttpResponse:
        return _decided(request, error_id, verb, lambda: done)

    return view


def _decided(
    request: HttpRequest, error_id: UUID, verb: Verb, done: Callable[[], str]
) -> HttpResponse:
    if request.method != "POST":
        return see("failure", error_id)
    if not is_known(error_id, scope_of(request.user)):
        raise Http404(UNKNOWN)

    def act() -> str:
        reason = reason_of(request)
        verb(error_id, version=version_of(request), actor=actor_of(request), reason=reason)
        return done()

    def shown(problem: IntegrationError) -> HttpResponse:
        is_late = isinstance(problem, LateReleaseError)
        return show_failure(request, error_id, status=409, late_asked=is_late)

    return carried_out(request, act, page="failure", subject=error_id, shown=shown)


@needs(Right.VIEW, Right.VIEW_PAYLOAD, Right.REVEAL)
def reveal(request: HttpRequest, error_id: UUID) -> HttpResponse:
    """Show this one message unmasked for some minutes, to this session; or mask it again."""
    failure = detail(error_id, scope_of(request.user))
    if failure is None:
        raise Http404(UNKNOWN)
    about = (KIND, error_id, failure.error.message_id)
    return reveals.decide(
        request, about, failure.cover.mask, lambda: see_again(request, "failure", error_id)
    )


@needs(Right.VIEW, Right.OPERATE)
def send_back(request: HttpRequest, error_id: UUID) -> HttpResponse:
    def verb(error_id: UUID, **how: Any) -> None:
        failure = detail(error_id, scope_of(request.user))
        if failure is not None:
            dead_letters.check(failure.error, scope_of(request.user))
        dead_letters.send_back(error_id, **how)

    return _decided(request, error_id, verb, lambda: "Sent back. It is in the outbox now.")


hold = _verb(failures.hold, "On hold. Nothing happens to it until somebody decides.")
delete = _verb(failures.delete, "Deleted. It can be restored until cleanup removes it.")
restore = _verb(failures.restore, "Restored. It is on hold again.")
park = _verb(
    failures.park, "Parked. The queue continues; later messages of its key follow this one."
)
arrived = _verb(failures.arrived, "Recorded: it arrived and will not be sent again.")
