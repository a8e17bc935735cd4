"""Idempotency keys: what is asked for twice under one key is done once and answered twice."""

import hashlib
import json
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Schema
from ninja.responses import NinjaJSONEncoder
from psycopg.types.json import Jsonb

from console.api.errors import KeyReusedError
from console.http_api.answers import REPEATED
from console.http_api.reading import LONGEST_ID, header_in
from console.methods import SAFE_METHODS
from integration.actions.transaction import short_transaction
from integration.store.sessions import execute, fetch_all

Arguments = ParamSpec("Arguments")
HEADER: Final = "Idempotency-Key"
KEPT_DAYS: Final = 7
_FORGET: Final = (
    "DELETE FROM console_actionreceipt WHERE person_id = %s "
    f"AND at < clock_timestamp() - interval '{KEPT_DAYS} days'"
)
# Waits for another request with this key that is not decided yet.
_TAKE: Final = """
INSERT INTO console_actionreceipt (person_id, key, request_hash, status, answer, at)
VALUES (%s, %s, %s, 0, 'null', clock_timestamp()) ON CONFLICT DO NOTHING RETURNING id"""
_KEEP: Final = "UPDATE console_actionreceipt SET status = %s, answer = %s WHERE id = %s"
_EARLIER: Final = (
    "SELECT request_hash, status, answer FROM console_actionreceipt "
    "WHERE person_id = %s AND key = %s"
)
# In a request's META, once something that it did may be committed.
_STEPS: Final = "sluice.has_steps"
Acting = Callable[Concatenate[HttpRequest, Arguments], Schema]


def once(view: Acting[Arguments], status: int) -> Callable[..., Schema | HttpResponse]:
    """Let a view act only once for each idempotency key of a person; `status` is its good one.

    The receipt is committed together with what was done. What was refused leaves none: the same
    key may be used again once the reason is gone.
    """

    @wraps(view)
    def acted(
        request: HttpRequest, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Schema | HttpResponse:
        key = header_in(request, HEADER, LONGEST_ID, is_quoted=True)
        if key is None:
            return view(request, *args, **kwargs)
        person = request.user.pk
        request.META.pop(_STEPS, None)
        with short_transaction():
            # Before all other hooks of the request: what others do after the commit undoes nothing.
            transaction.on_commit(partial(begin, request))
            execute(_FORGET, [person])
            taken = fetch_all(_TAKE, [person, key, _hash_of(request)])
            if not taken:
                return _repeated(request, key)
            answer = view(request, *args, **kwargs)
            # As it is sent now, to the character: moments are shortened by the same encoder.
            sent = json.dumps(answer.model_dump(), cls=NinjaJSONEncoder)
            execute(_KEEP, [status, Jsonb(json.loads(sent)), taken[0][0]])
        return answer

    return acted


def begin(request: HttpRequest) -> None:
    """Note that from here on something that the request does may be committed."""
    request.META[_STEPS] = True


def may_be_stored(request: HttpRequest) -> bool:
    """Return whether a step of the request may be committed, whatever became of a later one.

    With a key all is one transaction. Without one the request commits as often as it likes.
    """
    return request.method not in SAFE_METHODS and _STEPS in request.META


def has_committed(request: HttpRequest) -> bool:
    """Return whether a request with a key has committed a step: all of it, or one on its own."""
    return HEADER in request.headers and _STEPS in request.META


def _repeated(request: HttpRequest, key: str) -> HttpResponse:
    """The answer that was given before. Raises KeyReusedError."""
    for request_hash, status, answer in fetch_all(_EARLIER, [request.user.pk, key]):
        if bytes(request_hash) == _hash_of(request):
            facts: Any = json.loads(answer) if isinstance(answer, str) else answer
            response = JsonResponse(facts, status=status)
            response[REPEATED] = "true"
            return response
    raise KeyReusedError(key=key)


def _hash_of(request: HttpRequest) -> bytes:
    """Method, address and body: what has to be equal for a repetition."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (str(request.method).encode(), request.get_full_path().encode(), request.body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
