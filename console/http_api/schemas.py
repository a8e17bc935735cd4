"""What the answers of the HTTP API look like, as JSON Schema."""

from typing import Any, Final

from integration.http_api.fate import STATES

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
