"""What people decide about one failure: each verb is a POST to a small resource of its own."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse

from console.failures.pages import show_failure
from console.failures.waits import told_of_release
from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, see_again, tell_problem, version_of
from integration.actions import errors
from integration.actions.problems import LateReleaseError, StateMismatchError
from integration.errors import IntegrationError
from integration.selectors.failures.failure import UNKNOWN, is_known
from integration.selectors.scope import Scope

Verb = Callable[[HttpRequest, UUID], None]
Told = Callable[[UUID, Scope], str]


def _verb(
    verb: Verb, done: str, goes_on: Told | None = None
) -> Callable[[HttpRequest, UUID], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, error_id: UUID) -> HttpResponse:
        if request.method != "POST":
            return see("failure", error_id)
        scope = scope_of(request.user)
        if not is_known(error_id, scope):
            raise Http404(UNKNOWN)
        try:
            verb(request, error_id)
        except IntegrationError as problem:
            return _explained(request, error_id, problem)
        more = "" if goes_on is None else f" {goes_on(error_id, scope)}"
        messages.success(request, f"{done}{more}")
        return see_again(request, "failure", error_id)

    return view


def _explained(request: HttpRequest, error_id: UUID, problem: IntegrationError) -> HttpResponse:
    """A second click is no problem; anything else shows the failure as it is now, and why."""
    if isinstance(problem, StateMismatchError) and problem.already_done:
        messages.info(request, str(problem))
        return see_again(request, "failure", error_id)
    tell_problem(request, problem)
    is_late = isinstance(problem, LateReleaseError)
    return show_failure(request, error_id, status=409, late_asked=is_late)


def _release(request: HttpRequest, error_id: UUID) -> None:
    errors.release(
        error_id,
        version=version_of(request),
        actor=actor_of(request),
        reason=request.POST.get("reason", ""),
        late=request.POST.get("late") == "1",
        apply_as_newest=request.POST.get("apply_as_newest") == "1",
    )


def _hold(request: HttpRequest, error_id: UUID) -> None:
    reason = request.POST.get("reason", "")
    errors.hold(error_id, version=version_of(request), actor=actor_of(request), reason=reason)


def _delete(request: HttpRequest, error_id: UUID) -> None:
    reason = request.POST.get("reason", "")
    errors.delete(error_id, version=version_of(request), actor=actor_of(request), reason=reason)


def _restore(request: HttpRequest, error_id: UUID) -> None:
    reason = request.POST.get("reason", "")
    errors.restore(error_id, version=version_of(request), actor=actor_of(request), reason=reason)


def _arrived(request: HttpRequest, error_id: UUID) -> None:
    reason = request.POST.get("reason", "")
    errors.arrived(error_id, version=version_of(request), actor=actor_of(request), reason=reason)


release = _verb(_release, "Released.", told_of_release)
hold = _verb(_hold, "On hold. Nothing happens to it until someone decides.")
delete = _verb(_delete, "Deleted. It can be restored until cleanup removes it.")
restore = _verb(_restore, "Restored. It is on hold again.")
arrived = _verb(_arrived, "Noted: it arrived, and is not sent again.")
