"""Objects that have arrived: telling the engine wakes the messages that wait for them."""

from collections.abc import Sequence
from typing import NamedTuple

from integration.handlers.outbound import current
from integration.handlers.ports import filled
from integration.policy.dependency import clean_kind


class Arrived(NamedTuple):
    """Objects of one kind that are there now.

    `is_stored`: the object store has them, and would tell later that they came, except of those
    whose keys are too long.
    """

    kind: str
    keys: Sequence[str]
    is_stored: bool = False


def arrived(kind: str, key: str) -> None:
    """Say that an object is there: messages that failed for want of it are tried within a second.

    Call it in the transaction that writes the object; outside the engine, too. `kind` and `key` are
    those of `MissingDependencyError`. It is remembered, so that a message which asks for the object
    at the same moment is woken as well. What the object store stores says so by itself, with the
    name of its structure and the document's key.
    """
    note(Arrived(clean_kind(kind), [str(key)]))


def note(objects: Arrived) -> None:
    """Note objects for the commit of the transaction under way."""
    outbound = current.get()
    if outbound is None:
        filled().arrivals([objects])
    else:
        outbound.arrive(objects)
