"""A secret inside a JSON column: encrypted where it is stored, and told only as "set"."""

from collections.abc import Mapping
from typing import Any, Final

from cryptography.fernet import InvalidToken

from integration.models.fields import SecretUnreadableError, keyring

# The one member of the JSON object that stands for a secret.
MARK: Final = "sealed"
SET: Final = "set"
SET_ANEW: Final = "set anew"


def seal(text: str) -> dict[str, str]:
    """Return what is stored instead of the text."""
    return {MARK: keyring().encrypt(text.encode()).decode()}


def is_sealed(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) == {MARK} and isinstance(value[MARK], str)


def unseal(value: Mapping[str, str]) -> str:
    """Raises SecretUnreadableError when no configured key opens it."""
    try:
        return keyring().decrypt(value[MARK].encode()).decode()
    except InvalidToken as e:
        raise SecretUnreadableError from e


def masked(value: Any, before: Any = None) -> Any:
    """The same JSON value with "set" for each secret: what pages, audit and files show.

    A secret that was another one in `before` is "set anew".
    """
    if is_sealed(value):
        return SET_ANEW if is_sealed(before) and before != value else SET
    if isinstance(value, Mapping):
        parts = before if isinstance(before, Mapping) else {}
        return {name: masked(part, parts.get(name)) for name, part in value.items()}
    if isinstance(value, list):
        return [masked(part) for part in value]
    return value
