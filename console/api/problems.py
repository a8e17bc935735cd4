"""From whatever ends a request to an answer of the API's own: problems with a code and a step."""

import logging
from collections.abc import Callable
from typing import Final

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from console.api.errors import BadInputError, NotThereError, RightMissingError
from console.api.once import has_committed, may_be_stored
from console.http_api import answers
from console.layout import trail
from console.people.personal_tokens import NoPersonalTokenError
from console.server.limits import FORM_BYTES
from crontasks.bulk.errors import BulkError
from crontasks.configfile.reading import ConfigFileError
from crontasks.errors import BadParametersError, WorkersUnreachableError
from crontasks.running.outage import is_of_others, is_outage
from integration.actions.errors import (
    BadRecipeError,
    PauseEndError,
    PayloadTooLargeError,
    ReasonMissingError,
    RowBusyError,
)
from integration.errors import IntegrationError
from integration.handlers.failures import classify
from integration.handlers.traces import what_and_where
from integration.http_api.body_errors import BodyTooLargeError, CutShortError
from integration.http_api.errors import HttpApiError
from integration.kafka.errors import BrokerUnreachableError
from integration.selectors.failures.edits import MisfitTextError
from integration.selectors.masking.errors import MaskedError, MaskMovedError

log = logging.getLogger(__name__)
# What people's requests end in is a conflict with how things stand, but for these.
STATUSES: Final[dict[type[IntegrationError], int]] = {
    ReasonMissingError: 422,
    BadRecipeError: 422,
    PauseEndError: 422,
    PayloadTooLargeError: 422,
    MisfitTextError: 422,
    MaskedError: 403,
    MaskMovedError: 422,
    BadParametersError: 422,
    BulkError: 422,
    ConfigFileError: 422,
    RowBusyError: 503,
    BrokerUnreachableError: 503,
    WorkersUnreachableError: 503,
}


def answered(request: HttpRequest, act: Callable[[], HttpResponse]) -> HttpResponse:
    """Whatever happens, an answer of the API's own."""
    try:
        return act()
    except Exception as failure:  # noqa: BLE001 - a program gets a problem, never a page
        return of(request, failure)


def connect(api: NinjaAPI) -> None:
    """Have the API answer so, too, for what its operations raise."""
    for kind in (Exception, HttpError, ValidationError, AuthenticationError, Http404):
        api.add_exception_handler(kind, of)


def of(request: HttpRequest, failure: Exception | type[Exception]) -> HttpResponse:
    """The problem that tells of a failure; the log has no value that came with the request."""
    refusal = _refusal(request, failure)
    if isinstance(refusal, HttpApiError):
        return _refused(refusal)
    if isinstance(refusal, RowBusyError) and has_committed(request):
        return answers.held_up(refusal.code, may_be_stored=True)
    if isinstance(refusal, IntegrationError):
        return _not_done(refusal)
    assert isinstance(failure, Exception)  # noqa: S101 - ninja's type of a handler is wider
    if is_outage(failure):
        log.warning("the operator API cannot store: %s at %s", *what_and_where(failure))
        return answers.no_database(request, failure, may_be_stored=may_be_stored(request))
    if is_of_others(failure):
        log.warning("the operator API was held up: %s at %s", *what_and_where(failure))
        return answers.held_up(classify(failure).code, may_be_stored=may_be_stored(request))
    # A value that the database does not take, or a row that is in the way, is neither: sent again,
    # the same request would fail again.
    log.error("the operator API failed: %s at %s", *what_and_where(failure))
    return answers.broken(request)


def _refusal(request: HttpRequest, failure: Exception | type[Exception]) -> IntegrationError | None:
    match failure:
        case IntegrationError():
            return failure
        case PermissionDenied():
            why = str(failure)
            trail.note_refusal(request, why)
            return RightMissingError(why=why)
        case Http404():
            return NotThereError(what=str(failure))
        case RequestDataTooBig():
            return BodyTooLargeError(most_bytes=FORM_BYTES)
        case UnreadablePostError():
            return CutShortError()
        case _:
            return _of_input(failure)


def _of_input(failure: object) -> IntegrationError | None:
    match failure:
        case AuthenticationError():
            return NoPersonalTokenError()
        case ValidationError():
            mistakes = [(_place(one["loc"]), str(one["msg"])) for one in failure.errors]
            return BadInputError("The request does not have what this address needs.", mistakes)
        case BadRequest():
            return BadInputError(str(failure))
        case HttpError() if failure.status_code < 500:
            return BadInputError("The body is not JSON as it should be.")
        case _:
            return None


def _place(parts: tuple[object, ...]) -> str:
    return ".".join(map(str, parts))[:200]


def _refused(refusal: HttpApiError) -> HttpResponse:
    mistakes = getattr(refusal, "mistakes", ())
    if not mistakes:
        return answers.problem(refusal)
    listed = [{"place": place, "text": text[:500]} for place, text in mistakes]
    words = (refusal.reason, refusal.sentence, refusal.next_step)
    return answers.written(refusal.status, *words, more={"mistakes": listed})


def _not_done(problem: IntegrationError) -> HttpResponse:
    status = next((to for kind, to in STATUSES.items() if isinstance(problem, kind)), 409)
    code = problem.job_code if isinstance(problem, BulkError) else problem.code
    more: dict[str, object] = {}
    if isinstance(problem, ConfigFileError):
        more["mistakes"] = [
            {"place": f"line {one.line}", "text": one.sentence} for one in problem.mistakes
        ]
    return answers.written(
        status,
        code,
        problem.sentence,
        problem.next_step,
        retry_after=answers.LATER if status == 503 else None,
        more=more,
    )
