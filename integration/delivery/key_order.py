"""Order within a key: what stands behind an open failure of its key is parked, not tried."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from integration.delivery.outcome import APPLIED, PARKED, Failed, Outcome
from integration.delivery.tracked import Reader
from integration.delivery.unit import Unit
from integration.policy.failure import Failure
from integration.values import Record


def order_key(value: bytes) -> bytes:
    """Return 16 bytes that stand for a key of any length.

    As `decode(md5(key), 'hex')` in SQL. Two keys that somebody has made equal by it merely wait for
    each other.
    """
    return hashlib.md5(value, usedforsecurity=False).digest()


def order_key_of(record: Record) -> bytes | None:
    """Return what messages have in common that keep their order; None: it waits for none."""
    return None if record.key is None else order_key(record.key)


def read_order_keys(units: Sequence[Unit], read: Reader | None) -> None:
    """Note the key of each message, and that none is parked so far.

    `read` reads it out of a document; what cannot be read has none then. A failure keeps the key of
    its first try, also when a person edits it.
    """
    for unit in units:
        if unit.known is PARKED:
            unit.known = None
        unit.order_key = order_key_of(unit.record) if unit.row is None else unit.row.order_key
    if read is not None:
        untried = [unit for unit in units if unit.row is None]
        texts = read([None if unit.message is None else unit.message.body for unit in untried])
        for unit, text in zip(untried, texts, strict=True):
            unit.order_key = None if text is None else order_key(text.encode("utf-8", "replace"))


def moving_keys(units: Iterable[Unit]) -> list[bytes]:
    """Return the keys of those that move the position: an open failure of theirs parks them.

    The head of a sequential queue is one of them although it has a row: it may have failed before
    anybody looked at its key.
    """
    keys = {unit.order_key for unit in units if unit.moves and unit.order_key is not None}
    return sorted(keys)


class KeyOrder:
    """The keys that may not go on. One of these follows a transaction, a copy each part of it.

    `blocked` has the offset of the first open failure of a key: where the position went back, the
    messages before it do not wait for it.
    """

    def __init__(self, blocked: Mapping[bytes, int], failed: Iterable[bytes] = ()) -> None:
        self._blocked = blocked
        self._failed = set(failed)

    def copy(self) -> "KeyOrder":
        """Return the same for a part that may yet be undone."""
        return KeyOrder(self._blocked, self._failed)

    def judge(self, units: Sequence[Unit]) -> None:
        """Park those whose key may not go on, and no others; known failures stop their key."""
        ahead = self.copy()
        for unit in units:
            if unit.known is PARKED:
                unit.known = None
            if unit.known is None and ahead.stops(unit):
                unit.known = PARKED
            elif isinstance(unit.known, Failed):
                ahead.note(unit, unit.known)

    def stops(self, unit: Unit) -> bool:
        """Return whether an earlier message of its key is open."""
        key = unit.order_key
        if key is None or key in self._failed:
            return key is not None
        return unit.moves and unit.record.offset > self._blocked.get(key, unit.record.offset)

    def note(self, unit: Unit, outcome: Outcome) -> None:
        """Remember a message that has failed: nothing of its key passes it."""
        if isinstance(outcome, Failed) and unit.order_key is not None:
            self._failed.add(unit.order_key)

    def note_all(self, units: Sequence[Unit], outcomes: Sequence[Outcome]) -> bool:
        """Remember those that have failed; return whether that was not known before."""
        is_news = False
        for unit, outcome in zip(units, outcomes, strict=False):
            if outcome is not APPLIED and isinstance(outcome, Failed):
                self.note(unit, outcome)
                is_news = is_news or unit.known is None
        return is_news


def passed_over(units: Sequence[Unit], outcomes: Sequence[Outcome]) -> tuple[int, Failure] | None:
    """Return the first failure, and its place, that a later message of its key went past."""
    failed_at: dict[bytes, tuple[int, Failure]] = {}
    for place, (unit, outcome) in enumerate(zip(units, outcomes, strict=True)):
        if unit.order_key is None:
            continue
        if unit.order_key in failed_at:
            return failed_at[unit.order_key]
        if isinstance(outcome, Failed):
            failed_at[unit.order_key] = place, outcome.failure
    return None
