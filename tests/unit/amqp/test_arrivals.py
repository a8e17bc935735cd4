"""The thread that looks at idle queues goes on, whatever a look comes to."""

import pytest

from integration.amqp.arrivals import JmsArrivals
from integration.amqp.queues import Source
from integration.amqp.receiving import Address
from integration.amqp.waiting import Browsed

pytestmark = pytest.mark.fast
PLACE = ("1", 0)


class FakeBrowser:
    def __init__(self, problem: Exception | None) -> None:
        self.problem = problem
        self.is_closed = False

    def look(self, address: Address, limits: object, *, reader: str) -> Browsed:
        if self.problem is not None:
            raise self.problem
        return Browsed([b""], is_all=False)

    def close(self) -> None:
        self.is_closed = True


def test_a_look_that_fails_strangely_ends_no_thread(monkeypatch, caplog) -> None:
    monkeypatch.setattr("integration.amqp.arrivals.PAUSE_SECONDS", 0.01)
    browsers = [FakeBrowser(ValueError("strange")), FakeBrowser(None)]
    left = iter(browsers)
    sources = {1: Source(Address("in"), "reader")}
    arrivals = JmsArrivals(lambda: next(left), lambda _: sources)
    arrivals.watch({PLACE: 0})
    try:
        assert arrivals.wait(5.0) == {PLACE}
        assert browsers[0].is_closed
        assert "strange" in caplog.text
    finally:
        arrivals.close()
