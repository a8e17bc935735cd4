"""API tokens: how one is made, what is stored of it, and how it is known again."""

import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

BEGIN: Final = "sluice_"
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
LONGEST: Final = 200
_SHAPE: Final = re.compile(rf"({BEGIN}[a-z0-9]{{8}})_[A-Za-z0-9_-]+")
# A JSON Web Token: three parts in base64, the first of which is an object.
_JWT_BEGIN: Final = "eyJ"
_JWT: Final = re.compile(r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
# Where the browser comes back from an identity provider, with a code in the address.
_CALLBACK: Final = "company/callback/?"
_ANSWER: Final = re.compile(r"(company/callback/\?)[^\s\"'\\]+")


class NewToken(NamedTuple):
    """A token with what is stored of it. `text` is shown once and kept nowhere."""

    text: str
    prefix: str
    token_hash: str


def new_token() -> NewToken:
    """A token of 256 random bits behind a prefix by which it is found.

    >>> made = new_token()
    >>> made.text.startswith(made.prefix) and is_token(made.text, made.token_hash)
    True
    """
    prefix = BEGIN + "".join(secrets.choice(_LETTERS) for _ in range(8))
    text = f"{prefix}_{secrets.token_urlsafe(32)}"
    return NewToken(text, prefix, hash_of(text))


def prefix_of(text: str) -> str | None:
    """The part by which a token is shape; None for what cannot be one.

    >>> prefix_of("sluice_abcdefgh_secret"), prefix_of("secret")
    ('sluice_abcdefgh', None)
    """
    shape = _SHAPE.fullmatch(text) if len(text) <= LONGEST else None
    return None if shape is None else shape[1]


def hash_of(text: str) -> str:
    """SHA-256, hexadecimal: 256 random bits need no slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_token(text: str, token_hash: str) -> bool:
    """Return whether the text is the token; takes the same time whatever differs."""
    return hmac.compare_digest(hash_of(text), token_hash)


def without_tokens(text: str) -> str:
    """A text that may be kept anywhere: of every token in it only the prefix is left.

    >>> without_tokens("GET /?token=sluice_abcdefgh_secret 401")
    'GET /?token=sluice_abcdefgh_*** 401'
    >>> without_tokens("Bearer eyJhbGciOiJ9.eyJzdWIiOiI3In0.c2ln, /company/callback/?code=4 200")
    'Bearer eyJ***, /company/callback/?*** 200'
    """
    if BEGIN in text:
        text = _SHAPE.sub(r"\1_***", text)
    if _JWT_BEGIN in text:
        text = _JWT.sub("eyJ***", text)
    return _ANSWER.sub(r"\1***", text) if _CALLBACK in text else text
