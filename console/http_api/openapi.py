"""The OpenAPI 3.1 document of the HTTP API, built from the words of the code that answers."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from console.http_api.reading import LONGEST_ID, LONGEST_KEY
from integration.http_api.fate import STATES

VERSION: Final = "1"
_AUTH: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"basic": []}]
_REFUSALS: Final = {
    "400": "A header is wrong, or the body was cut short.",
    "408": "The body came too slowly.",
    "401": "No valid token came with the request.",
    "403": "The token belongs to another system, or does not allow this.",
    "404": "No such service, message or address.",
    "405": "The address takes another method.",
    "409": "The sender's own id was used for something else; or what the service needs is missing.",
    "413": "The body is too large, or holds too many messages.",
    "415": "The body is neither JSON nor XML.",
    "422": "The body cannot be read, or the service refused it.",
    "429": "The system posts more often than it may.",
    "500": "A mistake in Sluice itself; an administrator has to look.",
    "503": "It cannot be done now; the same request may succeed later.",
}
_POST: Final = (
    *("400", "401", "403", "404", "405", "408", "409", "413", "415", "422", "429"),
    *("500", "503"),
)
_GET: Final = ("401", "403", "404", "405", "500", "503")


# What answers look like, as JSON Schema.
_ID: Final = {"type": "string", "minLength": 1}
_COUNT: Final = {"type": "integer", "minimum": 0}
_STATE: Final = {"type": "string", "enum": list(STATES)}
_ONE: Final = {
    "message_id": _ID,
    "state": _STATE,
    "since": {"type": "string", "format": "date-time"},
    "code": {"type": "string", "description": "Why it is not through; stable."},
    "detail": {"type": "string", "description": "The same as a sentence, without any payload."},
    "attempts": _COUNT,
}
SCHEMAS: Final[dict[str, Any]] = {
    "Accepted": {
        "type": "object",
        "required": ["message_id", "service", "count", "state", "repeated"],
        "properties": {
            "message_id": _ID | {"description": "Of several messages, their ids are this.1, .2 …"},
            "sender_id": _ID,
            "service": {"type": "string"},
            "count": {"type": "integer", "minimum": 1},
            "state": {"type": "string", "enum": ["accepted", "applied", "superseded", "mixed"]},
            "ended": {"type": "object", "additionalProperties": _COUNT},
            "repeated": {"type": "boolean", "description": "This answer was given before."},
        },
    },
    "Published": {
        "type": "object",
        "required": ["message_id", "service", "count", "messages", "repeated"],
        "properties": {
            "message_id": _ID,
            "service": {"type": "string", "description": "The channel."},
            "count": _COUNT,
            "state": {"type": "string", "const": "accepted"},
            "messages": {
                "type": "object",
                "description": "The message id for each external system.",
                "additionalProperties": {"type": "string"},
            },
            "repeated": {"type": "boolean"},
        },
    },
    "Fate": {
        "type": "object",
        "required": ["message_id", "service", "received_at"],
        "properties": {
            **_ONE,
            "sender_id": _ID,
            "service": {"type": "string"},
            "received_at": {"type": "string", "format": "date-time"},
            "count": {"type": "integer", "minimum": 2},
            "states": {"type": "object", "additionalProperties": _COUNT},
            "messages": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["message_id", "state"],
                    "properties": _ONE,
                },
            },
        },
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "code", "detail", "next_step"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
            "detail": {"type": "string"},
            "next_step": {"type": "string"},
        },
    },
}


@cache
def document() -> dict[str, Any]:
    """The whole document; the same for everybody, and without any name of this installation."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice HTTP API",
            "version": VERSION,
            "description": "Partners post messages here and ask what became of them. Every answer "
            "but a good one is application/problem+json with a stable `code`, a sentence and the "
            "next step.",
        },
        "paths": _paths(),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "User: the token's or the system's name. Password: the token.",
                },
            },
            "schemas": SCHEMAS,
            "responses": {status: _refusal(text, status) for status, text in _REFUSALS.items()},
        },
    }


def _paths() -> dict[str, Any]:
    return {
        "/esqueue/{system}/{service}": _post(
            "putIntoQueue",
            "Put messages into the queue of a service",
            "Answered once they are stored for good, also while Kafka is down. A switched-off "
            "system or service does not matter: its messages wait. A JSON array, and XML with "
            "several elements of one name in its …Set element, are several messages; all of "
            "them are accepted or none.",
            parts=("system", "service"),
            good={"202": _good("Accepted", "Accepted")},
        ),
        "/es/{system}/{service}": _post(
            "runAtOnce",
            "Run a service at once",
            "One transaction: all messages of the body are applied, or nothing is.",
            parts=("system", "service"),
            good={"200": _good("Done", "Accepted")},
        ),
        "/esqueue/{system}/messages/{message_id}": {
            "get": {
                "operationId": "askForMessage",
                "summary": "What became of a message",
                "security": _AUTH,
                "parameters": [_part("system"), _part("message_id")],
                "responses": {"200": _good("Its state", "Fate"), **_refusals(_GET)},
            }
        },
        "/api/publish/{channel}": _post(
            "publish",
            "Publish to a channel",
            "One outgoing message for each external system that the channel serves.",
            parts=("channel",),
            good={"202": _good("Accepted", "Published")},
        ),
        "/openapi.json": {
            "get": {
                "operationId": "readDocument",
                "summary": "This document",
                "security": [],
                "responses": {"200": _DOCUMENT, **_refusals(("405",))},
            }
        },
    }


def _post(
    operation: str, summary: str, description: str, *, parts: Sequence[str], good: dict[str, Any]
) -> dict[str, Any]:
    return {
        "post": {
            "operationId": operation,
            "summary": summary,
            "description": description,
            "security": _AUTH,
            "parameters": [*map(_part, parts), *_HEADERS],
            "requestBody": _BODY,
            "responses": {**good, **_refusals(_POST)},
        }
    }


_WORDS: Final = {
    "system": "The external system the token belongs to.",
    "service": "The enterprise service: the message's INTERFACE.",
    "channel": "The publish channel, by its name.",
    "message_id": "The message_id of an answer, or the sender's own id.",
}


def _part(name: str) -> dict[str, Any]:
    return _parameter(name, "path", _WORDS[name], pattern="^[^/]+$")


def _parameter(name: str, place: str, description: str, **limits: object) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": {"type": "string", "minLength": 1, **limits},
    }


_PRINTABLE: Final = "^[!-~]+$"
_KEY: Final = "The Kafka key: messages of one key keep their order."
_SENDER_ID: Final = (
    "The sender's own id of this post. Sent again with the same body it gets the same answer and "
    "changes nothing; with another body, 409."
)
_HEADERS: Final = [
    _parameter("Idempotency-Key", "header", _SENDER_ID, maxLength=LONGEST_ID, pattern=_PRINTABLE),
    _parameter("Sluice-Key", "header", _KEY, maxLength=LONGEST_KEY, pattern=_PRINTABLE),
]
_DOCUMENT: Final = {
    "description": "OpenAPI 3.1",
    "content": {"application/json": {"schema": {"type": "object"}}},
}
_BODY: Final = {
    "required": True,
    "content": {
        "application/json": {"schema": {"type": ["object", "array"], "minItems": 1}},
        "application/xml": {"schema": {"type": "string"}},
    },
}


def _good(text: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": text, "content": content}


def _refusal(text: str, status: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    response: dict[str, Any] = {
        "description": text,
        "content": {"application/problem+json": {"schema": schema}},
    }
    if status in {"429", "503"}:
        response["headers"] = {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}}
    return response


def _refusals(statuses: tuple[str, ...]) -> dict[str, Any]:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}
