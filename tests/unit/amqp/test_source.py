"""What the source of a run makes of a link that ends, and of a database that does."""

import threading

import pytest

from integration.amqp.connection import EndedError
from integration.amqp.errors import JmsTooLargeError
from integration.amqp.incoming import TooLargeError
from integration.amqp.receiving import ROLLED_BACK
from integration.amqp.source import AmqpSource
from integration.delivery.ports import LostError

pytestmark = pytest.mark.fast
TEXT = "the broker has rolled back what was accepted"


class FakeLink:
    """A link on which nothing comes; with `problem` its first transaction was rolled back."""

    def __init__(self, problem: EndedError | None = None) -> None:
        self.problem = problem
        self.is_closed = False
        self.was_heard = threading.Event()

    def take(self, limit: int, seconds: float) -> list[object]:
        return []

    def is_at_end(self, seconds: float) -> bool:
        return True

    def hear(self, seconds: float = 0.0) -> None:
        self.was_heard.set()
        if self.problem is not None:
            raise self.problem

    def close(self) -> None:
        self.is_closed = True


class FakeReceipts:
    def known(self) -> set[bytes]:
        return set()

    def is_held(self, topic_uuid: str, offset: int) -> bool:
        return False

    def forget(self, receipts: object) -> None:
        pass

    def forget_old(self) -> set[bytes]:
        return set()


def test_a_transaction_that_was_rolled_back_is_told_by_the_next_fetch(monkeypatch) -> None:
    monkeypatch.setattr("integration.amqp.source.BEAT_SECONDS", 0.01)
    links = [FakeLink(EndedError(ROLLED_BACK, TEXT)), FakeLink()]
    opened: list[FakeLink] = []

    def open_link() -> FakeLink:
        opened.append(links[len(opened)])
        return opened[-1]

    source = AmqpSource(open_link, FakeReceipts(), "u")
    source.attach({0: 0})
    try:
        assert source.fetch(10, 0.0).drained == {0}
        assert links[0].was_heard.wait(10.0)
        [trouble] = source.fetch(10, 0.0).troubles
        assert trouble.text == TEXT
        assert links[0].is_closed
        fetched = source.fetch(10, 0.0)
        assert (fetched.troubles, fetched.drained) == ([], {0})
        assert opened == links
    finally:
        source.close()


class LostReceipts(FakeReceipts):
    def known(self) -> set[bytes]:
        raise LostError


def test_a_link_that_was_opened_for_a_lost_database_is_closed() -> None:
    link = FakeLink()
    source = AmqpSource(lambda: link, LostReceipts(), "u")
    source.attach({0: 0})
    with pytest.raises(LostError):
        source.fetch(10, 0.0)
    source.close()
    assert link.is_closed


class LargeLink(FakeLink):
    def take(self, limit: int, seconds: float) -> list[object]:
        raise TooLargeError


def test_a_message_that_is_too_large_is_told_and_asked_for_again_later(monkeypatch) -> None:
    links = [LargeLink(), FakeLink()]
    opened: list[FakeLink] = []

    def open_link() -> FakeLink:
        opened.append(links[len(opened)])
        return opened[-1]

    source = AmqpSource(open_link, FakeReceipts(), "u")
    source.attach({0: 0})
    try:
        assert len(source.fetch(10, 0.0).troubles) == 1
        assert links[0].is_closed
        for _ in range(2):
            with pytest.raises(JmsTooLargeError):
                source.facts()
        assert len(opened) == 1
        monkeypatch.setattr("integration.amqp.source.time.monotonic", lambda: float("inf"))
        assert source.facts() is not None
        assert source.fetch(10, 0.0).drained == {0}
    finally:
        monkeypatch.undo()
        source.close()
