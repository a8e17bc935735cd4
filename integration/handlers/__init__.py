"""What a handler author imports: decorator, message, publish(), newness guard and verdicts."""

from integration.handlers.claims import claim_all, claim_newest
from integration.handlers.failures import (
    Applied,
    BatchItemError,
    Failure,
    MissingDependencyError,
    OutageError,
    PermanentError,
    QueueLockTimeoutError,
    Superseded,
    TransientError,
    Verdict,
    missing_dependency,
    outage,
    permanent,
    transient,
)
from integration.handlers.payloads import PayloadRefusedError
from integration.handlers.publishing import Publication, caused_by, publish, publish_to
from integration.handlers.registry import inbound
from integration.handlers.sql import cursor
from integration.message import Message

__all__ = [
    "Applied",
    "BatchItemError",
    "Failure",
    "Message",
    "MissingDependencyError",
    "OutageError",
    "PayloadRefusedError",
    "PermanentError",
    "Publication",
    "QueueLockTimeoutError",
    "Superseded",
    "TransientError",
    "Verdict",
    "caused_by",
    "claim_all",
    "claim_newest",
    "cursor",
    "inbound",
    "missing_dependency",
    "outage",
    "permanent",
    "publish",
    "publish_to",
    "transient",
]
