"""The page of what waits at a JMS broker, with messages of several kinds."""

import pytest
from playwright.sync_api import expect
from proton import int32

from devstack.servers import Servers
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import WIDE, faults
from tests.support.amqp import Broker
from tests.support.jms import a_jms_queue, put

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SAID = {
    "subject": "MXWO",
    "correlation_id": "4f0b7c52-9d3e-4a0e-8d6a-6d5f2a0c7a11",
    "reply_to": "plant.answers",
    "group_id": "BEDFORD",
    "group_sequence": 3,
    "priority": 7,
    "creation_time": 1_700_000_000.0,
    "expiry_time": 1_900_000_000.0,
    "properties": {"site": "BEDFORD", "urgent": True, "tries": int32(3), "price": 1.5},
}


def test_its_messages_can_be_read_wide_and_narrow_light_and_dark(
    open_page: OpenPage, servers: Servers, amqp_broker: Broker, complaints: list[str]
) -> None:
    queue = a_jms_queue(amqp_broker, name="orders-in", selector="JMSPriority > 0")
    put(amqp_broker, queue, [{"wonum": "1000", "siteid": "BEDFORD"}], **SAID)
    put(amqp_broker, queue, ["no JSON"], first=1)
    put(amqp_broker, queue, [b"\x00\xff" * 400], id=None)
    page = open_page("Administrators", width=WIDE)
    page.goto(f"/queues/{queue.name}/")
    page.get_by_role("link", name="Look at what waits").click()
    page.get_by_text("JMS_NO_MESSAGE_ID").first.click()
    expect(page.get_by_text("00000000  00 ff")).to_be_visible()
    assert not faults(page)
    assert complaints == []
