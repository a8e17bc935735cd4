"""Calling handlers: the one place where their exceptions become values."""

from collections.abc import Callable, Sequence
from typing import Final

from integration.delivery.outcome import APPLIED, DELIVERED, SUPERSEDED, Failed, Outcome
from integration.delivery.unit import Unit
from integration.documents.refusals import tidied
from integration.handlers.failures import (
    Applied,
    BatchItemError,
    Forwarded,
    Superseded,
    classify,
)
from integration.policy.failure import Failure, FailureClass

SWALLOWED: Final = Failure(
    FailureClass.PERMANENT,
    "SWALLOWED_DATABASE_ERROR",
    "The handler caught a database error and went on; PostgreSQL refuses everything after it. "
    "Wrap the statement in transaction.atomic() so that only it is undone.",
)
WRONG_COUNT: Final = Failure(
    FailureClass.PERMANENT,
    "WRONG_VERDICT_COUNT",
    "The batch handler returned another number of verdicts than it got messages.",
)


def call_one(unit: Unit) -> Outcome:
    """Run a per-message handler. Whatever it raises is classified, whatever it returns read."""
    taker = unit.taker
    if taker is None or unit.message is None:
        return unit.known or APPLIED
    try:
        verdict = taker.call(unit.message)
    except Exception as e:  # noqa: BLE001 - the handler call is where strange code meets ours
        return Failed(classify(e))
    return APPLIED if verdict is None else read_verdict(verdict)


def read_verdict(verdict: object) -> Outcome:
    """A handler's return value as an outcome; anything unknown is a failure that lists these."""
    match verdict:
        case None | Applied():
            return APPLIED
        case Superseded():
            return SUPERSEDED
        case Forwarded():
            return DELIVERED
        case Failure():
            return Failed(tidied(verdict))
        case _:
            text = (
                f"The handler returned {type(verdict).__name__}; it may return None, Applied(), "
                "Superseded() or a Failure."
            )
            return Failed(Failure(FailureClass.PERMANENT, "UNKNOWN_VERDICT", text))


def call_batch(
    call: Callable[..., object], units: Sequence[Unit]
) -> list[Outcome] | tuple[int | None, Failure]:
    """Run a batch handler over consecutive messages.

    Returns one outcome per message, or (index of the culprit or None, its failure).
    """
    try:
        verdicts = call([unit.message for unit in units])
    except BatchItemError as e:
        index = e.index if 0 <= e.index < len(units) else None
        return index, classify(e.__cause__ or e)
    except Exception as e:  # noqa: BLE001 - the handler call is where strange code meets ours
        return None, classify(e)
    if verdicts is None:
        return [APPLIED] * len(units)
    if not isinstance(verdicts, Sequence) or len(verdicts) != len(units):
        return None, WRONG_COUNT
    return [read_verdict(verdict) for verdict in verdicts]
