"""What a handler author imports: decorator, message, publish(), newness guard and verdicts."""

from typing import TYPE_CHECKING, Any

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
from integration.handlers.message import Message
from integration.handlers.payloads import PayloadRefusedError
from integration.handlers.publishing import Publication, caused_by, publish, publish_to
from integration.handlers.registry import inbound
from integration.handlers.sql import cursor

if TYPE_CHECKING:
    from integration.store.objects import claim_all, claim_newest

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

# The guard knows the tables, which know the verdicts of this package: it is loaded when asked for.
_GUARD = frozenset({"claim_all", "claim_newest"})


def __getattr__(name: str) -> Any:  # noqa: ANN401 - Python's signature for a module
    if name in _GUARD:
        from integration.store import objects  # noqa: PLC0415 - see above

        return getattr(objects, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
