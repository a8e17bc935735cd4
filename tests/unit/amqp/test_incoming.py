"""What is held of a message that comes in pieces, and of one that is too large."""

from typing import Any

import pytest

from integration.amqp import incoming
from integration.amqp.incoming import Incoming, TooLargeError

pytestmark = pytest.mark.fast


class FakeDelivery:
    aborted = False

    def __init__(self, pieces: list[bytes], *, is_whole: bool) -> None:
        self.pieces, self.is_whole = pieces, is_whole

    @property
    def pending(self) -> int:
        return len(self.pieces[0]) if self.pieces else 0

    @property
    def partial(self) -> bool:
        return bool(self.pieces) or not self.is_whole


class FakeLink:
    def __init__(self, *deliveries: FakeDelivery) -> None:
        self.deliveries = list(deliveries)

    @property
    def current(self) -> FakeDelivery | None:
        return self.deliveries[0] if self.deliveries else None

    def recv(self, size: int) -> bytes:
        assert self.current is not None
        return self.current.pieces.pop(0)

    def advance(self) -> None:
        self.deliveries.pop(0)


def test_pieces_become_a_message() -> None:
    first = FakeDelivery([b"ab", b"c"], is_whole=True)
    second = FakeDelivery([b"d"], is_whole=False)
    link = Incoming(FakeLink(first, second))
    received = link.next()
    assert received is not None
    assert (received.data, link.begun) == (b"abc", 0)
    assert (link.next(), link.begun) == (None, 1)
    second.pieces, second.is_whole = [b"e"], True
    received = link.next()
    assert received is not None
    assert received.data == b"de"


def test_nothing_is_kept_of_a_message_that_is_too_large(monkeypatch: Any) -> None:
    monkeypatch.setattr(incoming, "LARGEST_BYTES", 3)
    large = FakeDelivery([b"ab", b"cd", b"ef"], is_whole=True)
    link = Incoming(FakeLink(FakeDelivery([b"abc"], is_whole=True), large))
    assert link.next() is not None
    for _ in range(2):
        with pytest.raises(TooLargeError):
            link.next()
    # What is left of it is no message of its own.
    assert large.pieces == [b"ef"]
