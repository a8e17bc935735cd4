"""Refusing a message by a value: what knows neither Django nor the database.

Bulk jobs judge documents by the same rules as the engine, in processes that have no Django.
"""

import re
from dataclasses import replace
from typing import Final

import jsonschema

from integration.policy.failure import TEXT_LIMIT, Failure, FailureClass

PERMANENT: Final = "PERMANENT_ERROR"
SENTENCE_LIMIT: Final = 1_000
CODE_LIMIT: Final = 60
_WORD_STARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_IN_CODES: Final = re.compile(r"[^A-Z0-9]+")


def permanent(text: str, code: str = PERMANENT) -> Failure:
    """A verdict: as PermanentError, for one message of a batch."""
    return tidied(Failure(FailureClass.PERMANENT, code, text))


def schema_refusal(error: jsonschema.ValidationError) -> Failure:
    """A verdict: what the schema says, without the document's values."""
    return permanent(schema_sentence(error)[:SENTENCE_LIMIT], "SCHEMA_VIOLATION")


def schema_sentence(error: jsonschema.ValidationError) -> str:
    """Say where the schema is broken, and by what rule."""
    if error.validator == "required" and isinstance(error.validator_value, list):
        instance = error.instance if isinstance(error.instance, dict) else {}
        missing = [str(name) for name in error.validator_value if name not in instance]
        return f"{error.json_path}: {', '.join(missing)} missing."
    allowed = _told(error.validator_value)
    if error.validator == "enum":
        return f"{error.json_path} must be one of {allowed}."
    return f"{error.json_path} breaks the rule {error.validator} of the schema: {allowed}."


def _told(rule: object) -> str:
    """What a rule of a schema asks for: words and numbers without Python's signs around them."""
    simple = isinstance(rule, list) and all(isinstance(one, str | int | float) for one in rule)
    return ", ".join(map(str, rule)) if isinstance(rule, list) and simple else str(rule)


def tidied(failure: Failure) -> Failure:
    """The failure as the error table can store it, whatever a handler put into it."""
    return replace(
        failure,
        code=_snake(failure.code) or "UNNAMED",
        text=plain_text(str(failure.text))[:TEXT_LIMIT],
        detail=plain_text(str(failure.detail)),
    )


def plain_text(text: str) -> str:
    """The text as PostgreSQL can store it: without NUL characters and half characters."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "␀").encode(errors="replace").decode()


def _snake(name: str) -> str:
    words = _WORD_STARTS.sub("_", name).upper()
    return _NOT_IN_CODES.sub("_", words).strip("_")[:CODE_LIMIT]
