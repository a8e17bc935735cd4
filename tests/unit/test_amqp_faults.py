"""What a broker or the database does at the wrong moment, on the side of JMS queues."""

import threading

import pytest

from integration.amqp.arrivals import JmsArrivals
from integration.amqp.queues import Source
from integration.amqp.receiving import Address
from integration.amqp.source import AmqpSource
from integration.delivery.ports import LostError

pytestmark = pytest.mark.fast


def test_a_look_that_breaks_off_ends_no_watch_of_idle_queues():
    looked, again = [], threading.Event()

    def open_browser():
        looked.append(1)
        if len(looked) > 1:
            again.set()
        return b"\xff".decode()

    arrivals = JmsArrivals(
        open_browser, lambda ids: {id_: Source(Address("a"), "r") for id_ in ids}
    )
    arrivals.watch({("1", 0): 0})
    assert again.wait(20)
    assert not arrivals.is_sure()
    arrivals.close()


class Gone:
    """Receipts of a database that is gone."""

    def known(self):
        raise LostError("gone")


def test_no_link_is_left_open_where_the_database_goes_before_it_is_used():
    opened = []
    source = AmqpSource(lambda: opened.append(1), Gone(), "00000000-0000-0000-0000-000000000000")
    source.attach({0: 0})
    with pytest.raises(LostError):
        source.fetch(1, 0.0)
    source.close()
    assert opened == []
