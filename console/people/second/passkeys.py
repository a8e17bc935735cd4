"""Passkeys (WebAuthn): made and shown by the browser, checked by Yubico's library."""

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.contrib.auth.models import User
from django.http import HttpRequest
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
)

# What the browser was asked for, until it answers.
ASKED: Final = "sluice_passkey"
LONGEST_ANSWER: Final = 20_000
# What JSON and the library raise on an answer that no browser sends: cut short, of other types, or
# nested too deeply.
UNREADABLE: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    RecursionError,
    struct.error,
)


def to_make(request: HttpRequest, person: User, known: Sequence[str]) -> str:
    """What the browser needs to make a passkey, as JSON; `known` are those that there are."""
    user = PublicKeyCredentialUserEntity(
        id=str(person.pk).encode(), name=person.get_username(), display_name=person.get_username()
    )
    options, state = _server(request).register_begin(
        user, [_read(key) for key in known], user_verification="preferred"
    )
    request.session[ASKED] = state
    return json.dumps(dict(options))


def made(request: HttpRequest, text: str) -> str | None:
    """The public key of the passkey that the browser made, to be kept; None where it is none."""
    state, answer = request.session.pop(ASKED, None), _answer(text)
    if state is None or answer is None:
        return None
    try:
        data = _server(request).register_complete(state, answer)
    except UNREADABLE:
        return None
    return base64.b64encode(bytes(data.credential_data)).decode()


def to_show(request: HttpRequest, known: Sequence[str]) -> str:
    """What the browser needs to show one of these passkeys, as JSON."""
    options, state = _server(request).authenticate_begin(
        [_read(key) for key in known], user_verification="preferred"
    )
    request.session[ASKED] = state
    return json.dumps(dict(options))


def shown(request: HttpRequest, known: Sequence[str], text: str) -> str | None:
    """Which of these passkeys the browser has shown; None where none."""
    state, answer = request.session.pop(ASKED, None), _answer(text)
    if state is None or answer is None or not known:
        return None
    by_id = {_read(key).credential_id: key for key in known}
    keys = [_read(key) for key in known]
    try:
        data = _server(request).authenticate_complete(state, keys, answer)
    except UNREADABLE:
        return None
    return by_id[data.credential_id]


def _server(request: HttpRequest) -> Any:
    """Keys are of one host, whatever its port."""
    host = request.get_host().rpartition(":")[0] or request.get_host()
    return Fido2Server(PublicKeyCredentialRpEntity(id=host, name="Sluice"))


def _read(key: str) -> Any:
    return AttestedCredentialData(base64.b64decode(key))


def _answer(text: str) -> Mapping[str, Any] | None:
    try:
        answer = json.loads(text) if len(text) <= LONGEST_ANSWER else None
    except UNREADABLE:
        return None
    return answer if isinstance(answer, dict) else None
