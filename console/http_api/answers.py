"""Answers of the HTTP API: JSON, and problems as RFC 9457 has them."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import get_script_prefix

from console.methods import SAFE_METHODS
from integration.errors import IntegrationError
from integration.http_api import spans
from integration.http_api.errors import (
    AGAIN_BY_ITS_KEY,
    MAY_BE_STORED,
    HttpApiError,
    WrongMethodError,
)
from integration.http_api.receipts import Answer, Post, answered_once
from integration.store.sessions import may_have_committed

PROBLEM: Final = "application/problem+json"
CHALLENGE: Final = 'Bearer realm="sluice", Basic realm="sluice", charset="UTF-8"'
REPEATED: Final = "Idempotent-Replayed"
# Without a time of its own, what may succeed later is worth a try after so long.
LATER: Final = timedelta(seconds=30)
INTERNAL: Final = "INTERNAL_ERROR"


def posted(post: Post, act: Callable[[], Answer]) -> HttpResponse:
    """Answer a post, now or as when it came before, with the address of its outcome."""
    with spans.of_post(post) as told:
        answer = answered_once(post, act)
        told.status, told.is_repeat = answer.status, answer.is_repeat
    response = JsonResponse({**answer.facts, "repeated": answer.is_repeat}, status=answer.status)
    message_id = quote(str(answer.facts["message_id"]))
    response["Location"] = (
        f"{get_script_prefix()}esqueue/{quote(post.system)}/messages/{message_id}"
    )
    if answer.is_repeat:
        response[REPEATED] = "true"
    return response


def problem(refusal: HttpApiError) -> HttpResponse:
    """A refusal with its code, sentence and next step."""
    words = (refusal.reason, refusal.sentence, refusal.next_step)
    response = written(refusal.status, *words, retry_after=refusal.retry_after)
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = CHALLENGE
    if isinstance(refusal, WrongMethodError):
        response["Allow"] = refusal.allowed
    return response


def trouble(failure: IntegrationError) -> HttpResponse:
    """Something of ours that may pass: the same request may succeed later."""
    words = (failure.code, failure.sentence, failure.next_step)
    return written(503, *words, retry_after=LATER)


def no_database(
    request: HttpRequest, failure: Exception, *, may_be_stored: bool = False
) -> HttpResponse:
    """Nothing can be stored, so nothing is accepted; but a commit may have lost its answer.

    `may_be_stored`: it met one of several steps, and those before it may be committed.
    """
    what = "The database does not answer, or cannot serve for now"
    sentence = f"{what}, so nothing was stored."
    next_step = "Send the request again later, with the same Idempotency-Key."
    if may_be_stored or (request.method not in SAFE_METHODS and may_have_committed(failure)):
        sentence = f"{what}. {MAY_BE_STORED}"
        next_step = AGAIN_BY_ITS_KEY
    return written(503, "DATABASE_DOWN", sentence, next_step, retry_after=LATER)


def held_up(code: str, *, may_be_stored: bool = False) -> HttpResponse:
    """The database gave the work up because of others at work in it; what was begun is undone.

    `may_be_stored`: it was one of several steps, and those before it may be committed.
    """
    sentence = "Others at work in the database were in the way, so nothing was stored."
    next_step = "Send the request again later, with the same Idempotency-Key."
    if may_be_stored:
        sentence = f"Others at work in the database were in the way. {MAY_BE_STORED}"
        next_step = AGAIN_BY_ITS_KEY
    return written(503, code, sentence, next_step, retry_after=LATER)


def refused_by_database() -> HttpResponse:
    """The database is there and does not take what was sent to it; the log names the place."""
    return written(
        500,
        INTERNAL,
        "An error in Sluice itself: the database refused what this request was to store or to "
        "read, so nothing was stored.",
        "Tell an administrator, whose log has the place. The same request is refused until that "
        "is corrected; then send it again, with the same Idempotency-Key.",
    )


def broken(request: HttpRequest) -> HttpResponse:
    """A mistake of ours, maybe after something was stored; the log names the place."""
    sentence = "An error in Sluice itself prevented an answer to this request."
    next_step = "Send it again later."
    if request.method not in SAFE_METHODS:
        sentence, next_step = f"{sentence} {MAY_BE_STORED}", AGAIN_BY_ITS_KEY
    return written(500, INTERNAL, sentence, f"{next_step} Tell an administrator if it persists.")


def written(
    status: int,
    code: str,
    sentence: str,
    next_step: str,
    *,
    retry_after: timedelta | None = None,
    more: Mapping[str, object] | None = None,
) -> HttpResponse:
    """A problem as RFC 9457 has it; `more` are further members."""
    facts = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": sentence,
        "next_step": next_step,
        **(more or {}),
    }
    response = JsonResponse(facts, status=status, content_type=PROBLEM)
    if retry_after is not None:
        response["Retry-After"] = str(int(retry_after.total_seconds()))
    return response
