"""The OpenAPI 3.1 document of the HTTP API, built from the words of the code that answers."""

from functools import cache
from typing import Any, Final

from console.http_api.schemas import SCHEMAS
from integration.http_api.receipts import LONGEST_ID

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
    "500": "A mistake in Sluice itself.",
    "503": "It cannot be done now; the same request may succeed later.",
}
_POST: Final = ("400", "401", "403", "404", "405", "408", "409", "413", "415", "422", "429", "503")
_GET: Final = ("401", "403", "404", "405", "503")


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
        "paths": {
            "/esqueue/{system}/{service}": {"post": _esqueue()},
            "/es/{system}/{service}": {"post": _es()},
            "/esqueue/{system}/messages/{message_id}": {"get": _message()},
            "/api/publish/{channel}": {"post": _publish()},
            "/openapi.json": {"get": _document()},
        },
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


def _esqueue() -> dict[str, Any]:
    return {
        "operationId": "putIntoQueue",
        "summary": "Put messages into the queue of a service",
        "description": "Answered once they are stored for good, also while Kafka is down. A "
        "switched-off system or service does not matter: its messages wait. A JSON array, and XML "
        "with several elements of one name in its …Set element, are several messages; all of them "
        "are accepted or none.",
        "security": _AUTH,
        "parameters": [_part("system"), _part("service"), *_HEADERS],
        "requestBody": _BODY,
        "responses": {"202": _good("Accepted", "Accepted"), **_refusals(_POST)},
    }


def _es() -> dict[str, Any]:
    return {
        "operationId": "runAtOnce",
        "summary": "Run a service at once",
        "description": "One transaction: all messages of the body are applied, or nothing is.",
        "security": _AUTH,
        "parameters": [_part("system"), _part("service"), *_HEADERS],
        "requestBody": _BODY,
        "responses": {"200": _good("Done", "Accepted"), **_refusals(_POST)},
    }


def _publish() -> dict[str, Any]:
    return {
        "operationId": "publish",
        "summary": "Publish to a channel",
        "description": "One outgoing message for each external system that the channel serves.",
        "security": _AUTH,
        "parameters": [_part("channel"), *_HEADERS],
        "requestBody": _BODY,
        "responses": {"202": _good("Accepted", "Published"), **_refusals(_POST)},
    }


def _message() -> dict[str, Any]:
    return {
        "operationId": "askForMessage",
        "summary": "What became of a message",
        "security": _AUTH,
        "parameters": [_part("system"), _part("message_id")],
        "responses": {"200": _good("Its state", "Fate"), **_refusals(_GET)},
    }


def _document() -> dict[str, Any]:
    plain = {"application/json": {"schema": {"type": "object"}}}
    return {
        "operationId": "readDocument",
        "summary": "This document",
        "security": [],
        "responses": {
            "200": {"description": "OpenAPI 3.1", "content": plain},
            **_refusals(("405",)),
        },
    }


_WORDS: Final = {
    "system": "The external system the token belongs to.",
    "service": "The enterprise service: the message's INTERFACE.",
    "channel": "The publish channel, by its name.",
    "message_id": "The message_id of an answer, or the sender's own id.",
}


def _part(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _WORDS[name],
        "schema": schema,
    }


_PRINTABLE: Final = "^[!-~]+$"
_HEADERS: Final = [
    {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "The sender's own id of this post. Sent again with the same body it gets "
        "the same answer and changes nothing; with another body, 409.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_ID,
            "pattern": _PRINTABLE,
        },
    },
    {
        "name": "Sluice-Key",
        "in": "header",
        "required": False,
        "description": "The Kafka key: messages of one key keep their order.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 500, "pattern": _PRINTABLE},
    },
]
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
    found: dict[str, Any] = {
        "description": text,
        "content": {"application/problem+json": {"schema": schema}},
    }
    if status in {"429", "503"}:
        found["headers"] = {"Retry-After": {"schema": {"type": "string", "pattern": "^[0-9]+$"}}}
    return found


def _refusals(statuses: tuple[str, ...]) -> dict[str, Any]:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}
