"""The API for handler authors: decorator, message, publish(), newness guard and verdicts."""

from integration.documents.refusals import permanent
from integration.handlers.arrivals import arrived
from integration.handlers.failures import (
    Applied,
    BatchItemError,
    MissingDependencyError,
    OutageError,
    PermanentError,
    QueueLockTimeoutError,
    Superseded,
    TransientError,
    Verdict,
    missing_dependency,
    outage,
    transient,
)
from integration.handlers.outbound import caused_by
from integration.handlers.payloads import PayloadRefusedError
from integration.handlers.ports import claim_all, claim_newest
from integration.handlers.publishing import Publication, publish, publish_to
from integration.handlers.registry import inbound
from integration.handlers.retries import Constant, Exponential, Linear, List
from integration.handlers.sql import cursor
from integration.handlers.user_proof import verified_user
from integration.message import Message
from integration.policy.failure import Failure

__all__ = [
    "Applied",
    "BatchItemError",
    "Constant",
    "Exponential",
    "Failure",
    "Linear",
    "List",
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
    "arrived",
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
    "verified_user",
]
