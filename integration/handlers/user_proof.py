"""The user that a message was sent for, where an authenticated sender may speak for that user.

A name in a message is a label: whoever may write to the topic may write any. The HTTP API proves it
by a signature that nobody makes without SECRET_KEY, over the name, the message's id, interface and
topic, and its payload. So it counts for this message as it was posted, and for no other, as long as
the key is SECRET_KEY or one of SECRET_KEY_FALLBACKS.
"""

from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core import signing

from integration.message import Message
from integration.policy.failure import Failure, FailureClass

PROOF: Final = "sluice-user-proof"
_SALT: Final = "sluice.user"
NOT_PROVEN: Final = Failure(
    FailureClass.PERMANENT,
    "USER_NOT_PROVEN",
    "This handler asks for the user's rights, and nothing proves who the user is: the message came "
    "past the HTTP API, its token may not speak for that user, the payload was edited since, or "
    "the key that signed it is not known here any more.",
)


def proof_of(user: str, message_id: str, interface: str, topic: str, payload: bytes) -> str:
    """Return what proves that the user's sender posted this payload."""
    text = _told(user, message_id, interface, topic, payload)
    return signing.Signer(salt=_SALT).signature(text)


def verified_user(message: Message) -> Any:
    """Return the active user that the message was sent for, or None where nothing proves one.

    Asks the database each time. Raises DatabaseError.
    """
    name = proven_name(message)
    if name is None:
        return None
    model = get_user_model()
    found = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
    return found if found is not None and found.is_active else None


def proven_name(message: Message) -> str | None:
    """Return the name that the message proves, whether or not there is such a user."""
    proof = next((value for name, value in message.headers if name == PROOF), None)
    user, payload = message.user, message.record.value
    if not proof or not user or payload is None:
        return None
    text = _told(user, message.message_id, message.interface, message.origin.topic, payload)
    try:
        signing.Signer(salt=_SALT).unsign(f"{text}:{proof.decode('latin-1')}")
    except signing.BadSignature:
        return None
    return user


def with_permission(call: Callable[..., Any], permission: str) -> Callable[..., Any]:
    """Return the handler with the question before it whether the user has the permission."""

    @wraps(call)
    def asked(message: Message) -> Any:
        if (name := proven_name(message)) is None:
            return NOT_PROVEN
        user = verified_user(message)
        if user is None or not user.has_perm(permission):
            return _not_allowed(name, permission)
        return call(message)

    return asked


def _not_allowed(name: str, permission: str) -> Failure:
    text = f"The user {name} has no account that is active here and has the right {permission}."
    return Failure(FailureClass.PERMANENT, "USER_NOT_ALLOWED", text)


def _told(user: str, message_id: str, interface: str, topic: str, payload: bytes) -> str:
    digest = sha256()
    for part in (user, message_id, interface, topic):
        digest.update(len(part.encode()).to_bytes(8, "big") + part.encode())
    digest.update(payload)
    return digest.hexdigest()
