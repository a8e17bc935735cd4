"""What the source of a run makes of a link that ends, and of a database that does."""

import threading
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from proton import Message

from integration.amqp.connection import EndedError
from integration.amqp.errors import JmsTooLargeError
from integration.amqp.incoming import TooLargeError
from integration.amqp.receiving import ROLLED_BACK
from integration.amqp.source import AmqpSource
from integration.delivery.ports import LostError
from integration.values import content_hash

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


class FullLink(FakeLink):
    """What is put to it comes at the next look; every accept is confirmed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[SimpleNamespace] = []
        self.accepted: list[object] = []

    def put(self, body: str, delivery: str) -> None:
        data = bytes(Message(id="m1", body=body).encode())
        self.waiting.append(SimpleNamespace(data=data, delivery=delivery))

    def take(self, limit: int, seconds: float) -> list[object]:
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return list(taken)

    def accept(self, deliveries: list[object], seconds: float) -> object:
        self.accepted += deliveries
        return SimpleNamespace(is_over=True)


class KeptReceipts(FakeReceipts):
    def __init__(self, *known: bytes) -> None:
        self.kept = set(known)

    def known(self) -> set[bytes]:
        return set(self.kept)

    def forget(self, receipts: Iterable[bytes]) -> None:
        self.kept.difference_update(receipts)


def test_a_corrected_message_under_the_same_id_is_handed_out() -> None:
    link, receipts = FullLink(), KeptReceipts()
    source = AmqpSource(lambda: link, receipts, "u")
    source.attach({0: 0})
    try:
        link.put("wrong", "first")
        assert [record.value for record in source.fetch(10, 0.0).records[0]] == [b"wrong"]
        # A failure holds it: written down, and not accepted.
        receipts.kept.add(source.receipt(0) or b"")
        source.close()
        source = AmqpSource(lambda: link, receipts, "u")
        source.attach({0: 1})
        link.put("wrong", "first again")
        link.put("right", "corrected")
        assert [record.value for record in source.fetch(10, 0.0).records[0]] == [b"right"]
        source.commit_to_group({0: 2})
        assert sorted(map(str, link.accepted)) == ["corrected", "first again"]
        assert source.fetch(10, 0.0).drained == {0}
        assert not receipts.kept
    finally:
        source.close()


def test_a_receipt_of_the_version_before_knows_the_id_alone() -> None:
    link, receipts = FullLink(), KeptReceipts(content_hash(b"m1"))
    source = AmqpSource(lambda: link, receipts, "u")
    source.attach({0: 0})
    try:
        link.put("a", "first")
        assert source.fetch(10, 0.0).records == {}
        source.commit_to_group({0: 0})
        source.fetch(10, 0.0)
        assert (link.accepted, receipts.kept) == (["first"], set())
    finally:
        source.close()
