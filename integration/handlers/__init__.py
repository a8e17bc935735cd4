"""What a handler author imports: the decorator, the message, publish() and the verdicts."""

from integration.handlers.failures import (
    Applied,
    BatchItemError,
    Failure,
    MissingDependencyError,
    OutageError,
    PermanentError,
    Superseded,
    TransientError,
    Verdict,
    missing_dependency,
    outage,
    permanent,
    transient,
)
from integration.handlers.message import Message
from integration.handlers.publishing import caused_by, publish
from integration.handlers.registry import inbound
from integration.handlers.sql import cursor

__all__ = [
    "Applied",
    "BatchItemError",
    "Failure",
    "Message",
    "MissingDependencyError",
    "OutageError",
    "PermanentError",
    "Superseded",
    "TransientError",
    "Verdict",
    "caused_by",
    "cursor",
    "inbound",
    "missing_dependency",
    "outage",
    "permanent",
    "publish",
    "transient",
]
