"""Answers of the HTTP API: JSON, and problems as RFC 9457 has them."""

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from django.http import HttpResponse, JsonResponse

from integration.errors import IntegrationError
from integration.http_api.problems import HttpApiError, WrongMethodError, code_of, status_of
from integration.http_api.receipts import Answer

PROBLEM: Final = "application/problem+json"
CHALLENGE: Final = 'Bearer realm="sluice", Basic realm="sluice", charset="UTF-8"'
REPEATED: Final = "Idempotent-Replayed"
# Without a time of its own, what may succeed later is worth a try after so many seconds.
_LATER_SECONDS: Final = 30


def told(answer: Answer, system: str) -> HttpResponse:
    """What a post came to, with where to ask what became of it."""
    response = JsonResponse({**answer.facts, "repeated": answer.is_repeat}, status=answer.status)
    message_id = quote(str(answer.facts["message_id"]))
    response["Location"] = f"/esqueue/{quote(system)}/messages/{message_id}"
    if answer.is_repeat:
        response[REPEATED] = "true"
    return response


def problem(refusal: HttpApiError) -> HttpResponse:
    """A refusal with its code, sentence and next step."""
    status = status_of(refusal)
    response = _problem(status, code_of(refusal), refusal.sentence, refusal.next_step)
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = CHALLENGE
    if isinstance(refusal, WrongMethodError):
        response["Allow"] = refusal.allowed
    if refusal.retry_after is not None:
        response["Retry-After"] = str(int(refusal.retry_after.total_seconds()))
    return response


def trouble(failure: IntegrationError) -> HttpResponse:
    """Something of ours that may pass: the same request may succeed later."""
    return _later(failure.code, failure.sentence, failure.next_step)


def no_database() -> HttpResponse:
    """Nothing can be stored, so nothing is accepted."""
    return _later(
        "DATABASE_DOWN",
        "The database does not answer, so nothing was stored.",
        "Send the request again later, with the same Idempotency-Key.",
    )


def broken() -> HttpResponse:
    """A mistake of ours; the log names the place."""
    return _problem(
        500,
        "INTERNAL_ERROR",
        "This request met a mistake in Sluice itself.",
        "Send it again later, with the same Idempotency-Key; tell an administrator if it persists.",
    )


def _later(code: str, sentence: str, next_step: str) -> HttpResponse:
    response = _problem(503, code, sentence, next_step)
    response["Retry-After"] = str(_LATER_SECONDS)
    return response


def _problem(status: int, code: str, sentence: str, next_step: str) -> HttpResponse:
    facts = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": sentence,
        "next_step": next_step,
    }
    return JsonResponse(facts, status=status, content_type=PROBLEM)
