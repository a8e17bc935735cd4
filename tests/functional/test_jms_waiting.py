"""What waits at a JMS broker is looked at by people, and every message of it stays."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from proton import Delivery, int32

from devstack.artemis import STRANGER
from integration.amqp.browsing import Browser
from integration.amqp.errors import (
    JmsBrowseRefusedError,
    JmsSelectorError,
    JmsSubscriptionHiddenError,
    JmsUnreachableError,
)
from integration.amqp.opening import open_receiver
from integration.amqp.queues import address_of, browsed, browser_of
from integration.amqp.records import in_words
from integration.amqp.waiting import Browsed, JmsMessage, Limits
from integration.models import ConfigurationChange, Provider, Queue
from integration.runs.queues import run_queue
from integration.selectors.queues.waiting import waiting
from tests.support.amqp import Broker
from tests.support.jms import a_jms_provider, a_jms_queue, left, put
from tests.support.rows import a_queue_row
from tests.support.set_up import logged_in
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

ROOMY = Limits(messages=100, size=2**20, seconds=60.0)


def looked_at(queue: Queue, limits: Limits = ROOMY) -> Browsed:
    browser = browser_of(queue.provider, "test")
    try:
        return browsed(browser, queue, limits)
    finally:
        browser.close()


def ids(found: Browsed) -> list[str]:
    return [in_words(data).message_id for data in found.messages]


def test_what_is_looked_at_stays_and_is_received_once(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(7)])
    every = [f"m{n}" for n in range(7)]
    for _ in range(3):
        found = looked_at(queue)
        assert (ids(found), found.is_all, found.count) == (every, True, 7)
    assert left(amqp_broker, queue) == every
    assert [message.delivery_count for message in amqp_broker.received(queue.topic)] == [0] * 7
    run_queue(queue.pk)
    assert list(Effect.objects.order_by("id").values_list("n", flat=True)) == list(range(7))
    assert looked_at(queue) == Browsed([], is_all=True)


@pytest.mark.parametrize(
    ("limits", "shown", "is_all", "is_cut"),
    [
        (Limits(5, 2**20, 5.0), 5, True, False),
        (Limits(4, 2**20, 5.0), 4, False, False),
        (Limits(100, 80, 5.0), 3, False, False),
    ],
)
def test_a_look_ends_with_so_many_messages_or_bytes(
    servers, amqp_broker: Broker, limits: Limits, shown: int, is_all: bool, is_cut: bool
):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": n} for n in range(5)])
    found = looked_at(queue, limits)
    assert (len(found.messages), found.is_all, found.is_cut) == (shown, is_all, is_cut)
    assert len(left(amqp_broker, queue)) == 5


def test_a_large_message_does_not_hide_what_stands_behind_it(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, ["x" * 3_000_000, "y"])
    cut = looked_at(queue)
    assert (cut.messages, cut.is_all, cut.is_cut, cut.count) == ([], False, True, 1)
    whole = looked_at(queue, Limits(100, 2**23, 5.0))
    assert (ids(whole), whole.is_all) == (["m0", "m1"], True)


def test_only_what_meets_the_selector_is_shown(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, selector="site = 'BEDFORD'")
    put(amqp_broker, queue, [{"n": 0}], properties={"site": "NASHUA"})
    put(amqp_broker, queue, [{"n": 1}], first=1, properties={"site": "BEDFORD"})
    assert ids(looked_at(queue)) == ["m1"]
    queue.selector = "site = = 'X'"
    with pytest.raises(JmsSelectorError, match="Invalid filter"):
        looked_at(queue)


def test_one_connection_looks_at_several_and_survives_what_is_refused(servers, amqp_broker: Broker):
    queue, other = a_jms_queue(amqp_broker), a_jms_queue(amqp_broker)
    put(amqp_broker, other, [{"n": 0}])
    browser = browser_of(queue.provider, "test")
    queue.selector = "= ="
    for _ in range(2):
        with pytest.raises(JmsSelectorError):
            browsed(browser, queue, ROOMY)
        assert ids(browsed(browser, other, ROOMY)) == ["m0"]
    amqp_broker.kill()
    with pytest.raises(JmsUnreachableError):
        browsed(browser, other, ROOMY)
    browser.close()
    amqp_broker.server.start()


def test_a_durable_subscription_is_shown_once_a_run_has_begun_it(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, subscription="slu.ice one")
    # Nothing is made at the broker by a look.
    with pytest.raises(JmsSubscriptionHiddenError, match="no run has begun it"):
        looked_at(queue)
    run_queue(queue.pk)
    put(amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(3)], to_topic=True)
    assert ids(looked_at(queue)) == ["m0", "m1", "m2"]
    run_queue(queue.pk)
    assert list(Effect.objects.order_by("id").values_list("n", flat=True)) == [0, 1, 2]
    assert ids(looked_at(queue)) == []


def test_what_a_run_has_received_is_its_own_until_it_ends(servers, amqp_broker: Broker):
    """So a page says: Artemis leaves it out. Another broker may show it."""
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": n} for n in range(5)])
    link = open_receiver(queue.provider, address_of(queue), name="run", credit=2)
    assert len(link.take(1, 5)) == 1
    assert ids(looked_at(queue)) == ["m3", "m4"]
    link.close()
    assert ids(looked_at(queue)) == [f"m{n}" for n in range(5)]


def test_a_user_without_the_right_is_told_which(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": 0}])
    queue.provider = a_jms_provider(amqp_broker, username=STRANGER)
    with pytest.raises(JmsBrowseRefusedError, match="BROWSE") as refused:
        looked_at(queue)
    assert "user browse there" in refused.value.next_step


def described(amqp_broker: Broker) -> tuple[Queue, JmsMessage]:
    queue = a_jms_queue(amqp_broker)
    fields = {
        "id": "ID:1",
        "subject": "ORDER",
        "priority": 7,
        "correlation_id": "c-1",
        "reply_to": "answers",
        "group_id": "g-1",
        "group_sequence": 3,
        "creation_time": timezone.now().timestamp(),
        "expiry_time": timezone.now().timestamp() + 7_200,
        "properties": {"site": "BEDFORD", "urgent": True, "n": int32(3)},
    }
    put(amqp_broker, queue, [{"wonum": "1000"}], **fields)
    for _ in range(2):
        # Handed out, and given back as failed. Artemis tells whoever looks of one less.
        link = open_receiver(queue.provider, address_of(queue), name="other", credit=1)
        [received] = link.take(1, 5)
        received.delivery.local.failed = True
        received.delivery.update(Delivery.MODIFIED)
        received.delivery.settle()
        # It has taken that once it answers what comes later.
        link.accept([], 5)
        link.hear(5)
        link.close()
    return queue, in_words(looked_at(queue).messages[0])


def test_all_that_a_message_says_is_shown(servers, amqp_broker: Broker):
    queue, said = described(amqp_broker)
    assert (said.message_id, said.kind, said.jms_type, said.priority) == (
        *("ID:1", "text"),
        *("ORDER", 7),
    )
    assert (said.correlation_id, said.reply_to, said.group_id, said.group_sequence) == (
        *("c-1", "answers"),
        *("g-1", 3),
    )
    assert said.deliveries == 1
    assert said.sent_at is not None
    assert said.expires_at is not None
    assert [tuple(one) for one in said.properties] == [
        ("site", "String", "BEDFORD"),
        ("urgent", "boolean", "true"),
        ("n", "int", "3"),
    ]
    page = logged_in("Editors").get(reverse("waiting-messages", args=[queue.name]))
    assert page.status_code == 200
    for text in (
        "ID:1",
        "ORDER",
        "c-1",
        "answers",
        "g-1",
        "BEDFORD",
        "boolean",
        "delivery count 1",
    ):
        assert text in page.text
    assert "&quot;wonum&quot;: &quot;1000&quot;" in page.text
    assert len(left(amqp_broker, queue)) == 1


def test_a_view_needs_the_right_and_leaves_a_row(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    address = reverse("waiting-messages", args=[queue.name])
    editor = logged_in("Editors", "edi")
    assert "No message waits" in editor.get(address).text
    # Nothing was shown.
    assert not ConfigurationChange.every.filter(action="view").exists()
    put(amqp_broker, queue, [{"secret": 1}])
    viewer = logged_in("Operators", "otto")
    assert viewer.get(address).status_code == 403
    assert "Look at what waits" in viewer.get(reverse("queue", args=[queue.name])).text
    assert address not in viewer.get(reverse("queue", args=[queue.name])).text
    assert address in editor.get(reverse("queue", args=[queue.name])).text
    assert "secret" in editor.get(address).text
    [row] = ConfigurationChange.every.filter(action="view")
    assert (row.actor, row.kind, row.subject) == ("edi", "queue", str(queue.pk))
    assert row.name == f"what waits in {queue.name}"


def test_a_message_that_would_be_held_is_shown_with_the_reason(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, ["no JSON", {"n": 1}])
    put(amqp_broker, queue, [{"n": 2}], id=None)
    bad, good, nameless = waiting(queue).messages
    assert bad.view.flaw_code == "BAD_JSON"
    assert bad.view.raw == "no JSON"
    assert (good.view.flaw_code, good.said.message_id) == ("", "m1")
    assert nameless.view.flaw_code == "JMS_NO_MESSAGE_ID"
    assert nameless.view.raw == '{"n": 2}'
    page = logged_in("Editors").get(reverse("waiting-messages", args=[queue.name])).text
    assert "JMS_NO_MESSAGE_ID" in page
    # What goes on as it is may be anything.
    queue.direction = Queue.Direction.OUTBOUND
    assert waiting(queue).messages[0].view.flaw_code == ""


def test_a_broker_that_is_away_or_refuses_is_said_with_its_code(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, subscription="sluice")
    client = logged_in("Editors")
    address = reverse("waiting-messages", args=[queue.name])
    assert "JMS_SUBSCRIPTION_HIDDEN" in client.get(address).text
    Provider.objects.filter(pk=queue.provider_id).update(password="wrong")
    page = client.get(address)
    assert page.status_code == 200
    assert "JMS_REFUSED" in page.text
    assert "Check user and password" in page.text


@pytest.fixture
def kafkas() -> Queue:
    return a_queue_row("sequential")


def test_what_waits_in_kafka_is_not_shown_like_this(kafkas: Queue):
    answer: Client = logged_in("Editors")
    assert answer.get(reverse("waiting-messages", args=[kafkas.name])).status_code == 404


def test_a_browser_that_cannot_connect_says_so(servers, amqp_broker: Broker):
    provider = a_jms_provider(amqp_broker, bootstrap_servers="127.0.0.1:1")
    with pytest.raises(JmsUnreachableError):
        Browser(provider, name="test")
