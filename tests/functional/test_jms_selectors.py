"""Several queues of one JMS address: by selectors of a JMS queue, by subscriptions of a topic."""

from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils import timezone

from integration import registration
from integration.amqp.opening import open_receiver
from integration.amqp.queues import address_of
from integration.amqp.records import arrived
from integration.delivery.report import RunEnding
from integration.models import (
    JmsReceipt,
    MessageError,
    MessageTrack,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
)
from integration.runs.queues import run_queue
from integration.runs.sources import source_of
from integration.selectors.scope import EVERYTHING
from integration.selectors.setup.nouns import uses_of_provider
from tests.functional.config_world import Config
from tests.functional.setup_world import NEW, a_form, a_name, made, mistakes
from tests.support.amqp import Broker
from tests.support.channels import an_outbound
from tests.support.jms import a_jms_queue, left, put, standing
from tests.support.rows import a_jms_provider_row, a_jms_queue_row, a_place, a_queue_row
from tests.support.set_up import logged_in
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

BEDFORD, OTHERS = "site = 'BEDFORD'", "site IS NULL OR site <> 'BEDFORD'"


def applied() -> list[int]:
    return list(Effect.objects.order_by("id").values_list("n", flat=True))


def a_pair(jms: Broker, **fields: object) -> tuple[Queue, Queue]:
    """Two queues with selectors of one JMS queue, of which each message meets one."""
    one = a_jms_queue(jms, selector=BEDFORD, **fields)
    return one, a_jms_queue(jms, topic=one.topic, selector=OTHERS, **fields)


def test_two_queues_with_complementary_selectors_get_each_message_once(
    servers, amqp_broker: Broker
):
    one, other = a_pair(amqp_broker)
    for n in range(8):
        site = "BEDFORD" if n % 2 else "NASHUA"
        put(amqp_broker, one, [{"n": n, "do": "ok"}], first=n, properties={"site": site})
    assert run_queue(one.pk).ending is RunEnding.DRAINED
    assert applied() == [1, 3, 5, 7]
    assert left(amqp_broker, one) == ["m0", "m2", "m4", "m6"]
    assert run_queue(other.pk).ending is RunEnding.DRAINED
    assert sorted(applied()) == list(range(8))
    assert left(amqp_broker, one) == []
    assert not JmsReceipt.objects.exists()
    # Each has numbers of its own, under which nothing of the other is found.
    tracks = MessageTrack.objects.filter(queue__in=[one, other])
    assert sorted(tracks.values_list("message_id", flat=True)) == [f"m{n}" for n in range(8)]
    places = QueuePartition.objects.filter(queue__in=[one, other])
    assert [row.next_offset for row in places] == [4, 4]
    assert len({row.topic_uuid for row in places}) == 2


def test_they_read_side_by_side(servers, amqp_broker: Broker):
    """The connection of each has a name of its own: neither keeps the other out."""
    one, other = a_pair(amqp_broker)
    put(amqp_broker, one, [{"n": 0}], properties={"site": "BEDFORD"})
    put(amqp_broker, one, [{"n": 1}], first=1)
    first, _ = source_of(one)
    second, _ = source_of(other)
    for source, text in ((first, b'{"n": 0}'), (second, b'{"n": 1}')):
        source.attach({0: 0})
        assert source.facts() is not None
        [record] = source.fetch(10, 5).records[0]
        assert record.value == text
    first.close()
    second.close()


def test_what_one_has_applied_is_known_to_the_other_when_selectors_change(
    servers, amqp_broker: Broker
):
    one, other = a_pair(amqp_broker)
    put(amqp_broker, one, [{"n": 0, "do": "ok"}], properties={"site": "BEDFORD"})
    # Applied, and not accepted: the process died in between.
    link = open_receiver(one.provider, address_of(one), name="reader", credit=1)
    message = arrived(link.take(1, 5)[0].data, 0).receipt
    link.close()
    receipt = JmsReceipt.objects.create(queue=one, message=message, received_at=timezone.now())
    Queue.objects.filter(pk=one.pk).update(selector="site = 'NASHUA'")
    Queue.objects.filter(pk=other.pk).update(selector=BEDFORD)
    run_queue(other.pk)
    assert applied() == []
    assert left(amqp_broker, one) == []
    assert not JmsReceipt.objects.filter(pk=receipt.pk).exists()


def test_subscriptions_of_one_topic_have_each_message_each(servers, amqp_broker: Broker):
    one = a_jms_queue(amqp_broker, subscription="one")
    other = a_jms_queue(amqp_broker, topic=one.topic, subscription="other")
    for queue in (one, other):
        run_queue(queue.pk)
    put(amqp_broker, one, [{"n": n, "do": "ok"} for n in range(3)], to_topic=True)
    run_queue(one.pk)
    assert applied() == [0, 1, 2]
    run_queue(other.pk)
    assert applied() == [0, 1, 2, 0, 1, 2]


def test_what_they_publish_for_the_same_message_has_ids_of_its_own(servers, amqp_broker: Broker):
    """Both have it under the number 0: another reader would drop the second for a repeat."""
    an_outbound("out")
    one = a_jms_queue(amqp_broker, subscription="one")
    other = a_jms_queue(amqp_broker, topic=one.topic, subscription="other")
    for queue in (one, other):
        run_queue(queue.pk)
    put(amqp_broker, one, [{"n": 0, "do": "publish"}], to_topic=True)
    run_queue(one.pk)
    run_queue(other.pk)
    ids = list(OutboxRow.objects.values_list("message_id", flat=True))
    assert len(ids) == len(set(ids)) == 2


def test_messages_without_an_id_are_told_apart(servers, amqp_broker: Broker):
    one, other = a_pair(amqp_broker, kind="continuous")
    put(amqp_broker, one, [{"n": 0}], id=None, properties={"site": "BEDFORD"})
    put(amqp_broker, one, [{"n": 1}], id=None)
    run_queue(one.pk)
    run_queue(other.pk)
    ids = set(MessageError.objects.values_list("message_id", flat=True))
    assert ids == {f"jms~{queue.name}~0~0" for queue in (one, other)}


def test_a_changed_selector_is_read_by_from_the_next_run_on(servers, amqp_broker: Broker):
    """The link of a run keeps its own: what only that one takes goes to nobody then."""
    queue = a_jms_queue(amqp_broker, "continuous", selector=BEDFORD, stay_seconds=30.0)
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}], properties={"site": "BEDFORD"})

    def changed() -> None:
        if applied() and not Queue.objects.filter(pk=queue.pk, selector=OTHERS).exists():
            queue.selector = OTHERS
            queue.save()

    report = run_queue(queue.pk, stop=lambda **_: changed())
    assert (report.ending, report.text) == (RunEnding.STOPPED, "Its selector was changed.")
    put(amqp_broker, queue, [{"n": 1, "do": "ok"}], first=1, properties={"site": "BEDFORD"})
    put(amqp_broker, queue, [{"n": 2, "do": "ok"}], first=2, properties={"site": "NASHUA"})
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=0.0)
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert applied() == [0, 2]
    assert left(amqp_broker, queue) == ["m1"]


class TestSettingUp:
    """Without a broker: what may be saved."""

    def test_of_a_jms_broker_another_selector_or_subscription_is_another_source(self):
        first = a_jms_queue_row(topic="orders")
        same = Queue(provider=first.provider, topic="orders", name="second", kind="sequential")
        same.start_from = Queue.StartFrom.BEGINNING
        with pytest.raises(ValidationError, match="already reads from there"):
            same.full_clean()
        for field in ("selector", "subscription"):
            other = Queue(provider=first.provider, topic="orders", name=f"by-{field}")
            other.kind, other.start_from = "sequential", Queue.StartFrom.BEGINNING
            setattr(other, field, "JMSPriority > 4" * 60 if field == "selector" else "one")
            other.full_clean()
            other.save()

    def test_of_a_topic_of_kafka_there_is_one(self):
        first = a_queue_row("sequential", name="first")
        second = Queue(provider=first.provider, topic=first.topic, name="second")
        second.kind, second.start_from = "sequential", Queue.StartFrom.BEGINNING
        with pytest.raises(ValidationError, match="already reads from there"):
            second.full_clean()

    def test_the_form_says_what_is_taken(self):
        client = logged_in()
        provider = a_jms_provider_row()
        fields = {"provider": provider.pk, "topic": "orders", "kind": "continuous"}
        form = a_form(client, name=a_name(), **fields)
        made(client, form | {"selector": BEDFORD})
        taken = form | {"name": a_name(), "selector": BEDFORD}
        [text] = client.post(reverse(NEW), taken).context["form"].errors["topic"]
        assert "this JMS address with the same selector" in text
        second = made(client, form | {"name": a_name(), "selector": OTHERS})
        uses = [use.how for use in uses_of_provider(provider, EVERYTHING)]
        assert any(how.endswith(f"JMS address orders, selector {OTHERS}") for how in uses)
        # A selector may be changed later, but not to that of the other.
        change = reverse("queue-change", args=[second.name])
        assert mistakes(client.post(change, a_form(client, change, selector=BEDFORD)))
        assert client.post(change, a_form(client, change, selector="a = 1")).status_code == 303

    def test_that_of_a_durable_subscription_stays_and_the_form_says_why(self):
        queue = a_jms_queue_row(subscription="sluice", selector=BEDFORD)
        client, change = logged_in(), reverse("queue-change", args=[queue.name])
        assert registration.SELECTOR_STAYS in client.get(change).text
        client.post(change, a_form(client, change, selector=OTHERS, description="seen"))
        queue.refresh_from_db()
        assert (queue.selector, queue.description) == (BEDFORD, "seen")

    def test_the_way_to_another_selector_doubles_nothing(self):
        way = ["senders stop", "drain", "delete it", "a new queue", "run it once before they send"]
        places = [registration.SELECTOR_STAYS.find(step) for step in way]
        assert -1 not in places
        assert places == sorted(places)

    def test_a_form_from_before_the_first_position_is_refused_too(self):
        queue = a_jms_queue_row(subscription="sluice", selector=BEDFORD)
        queue.selector = f"{BEDFORD} "
        with pytest.raises(ValidationError) as refused:
            registration.check(queue)
        assert refused.value.message_dict == {"selector": [registration.SELECTOR_STAYS]}
        # Nothing waits in a subscription that no run can have begun.
        queue.partitions.all().delete()
        registration.check(queue)

    def test_the_configuration_file_is_refused_in_the_same_way(self, tmp_path: Path):
        queue = a_jms_queue_row(subscription="sluice", selector=BEDFORD)
        config = Config(tmp_path)
        _, text = config("export")
        text = text.replace("selector: site = 'BEDFORD'", "selector: site = 'NASHUA'")
        code, said = config("apply", text=text)
        assert code != 0
        assert registration.SELECTOR_STAYS in said
        queue.refresh_from_db()
        assert queue.selector == BEDFORD

    def test_the_name_by_which_a_broker_knows_its_reader_stays(self):
        queue = a_jms_queue_row()
        client, change = logged_in(), reverse("queue-change", args=[queue.name])
        assert registration.NAME_STAYS in client.get(change).text
        client.post(change, a_form(client, change, name="renamed", description="seen"))
        stored = Queue.objects.get(pk=queue.pk)
        assert (stored.name, stored.description) == (queue.name, "seen")
        stored.name = "renamed"
        with pytest.raises(ValidationError) as refused:
            registration.check(stored)
        assert refused.value.message_dict == {"name": [registration.NAME_STAYS]}
        # Without a position no run can have begun, and at Kafka no name is known.
        queue.partitions.all().delete()
        registration.check(stored)
        kafka = a_queue_row()
        a_place(kafka)
        assert "name" not in registration.staying(kafka)

    def test_the_form_of_a_queue_at_kafka_refuses_a_second_reader(self):
        client = logged_in()
        kafka = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
        a_queue_row("sequential", provider=kafka, topic="taken")
        form = a_form(client, name=a_name(), provider=kafka.pk, topic="taken", kind="sequential")
        answer = client.post(reverse(NEW), form | {"show": "effect"})
        assert "already uses this topic" in answer.context["form"].errors["topic"][0]


def test_a_selector_chooses_and_one_that_is_none_is_told(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, selector="site = 'BEDFORD'")
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}], properties={"site": "NASHUA"})
    put(amqp_broker, queue, [{"n": 1, "do": "ok"}], first=1, properties={"site": "BEDFORD"})
    run_queue(queue.pk)
    assert applied() == [1]
    assert left(amqp_broker, queue) == ["m0"]
    Queue.objects.filter(pk=queue.pk).update(selector="site = = 'X'")
    assert run_queue(queue.pk).ending is RunEnding.OUTAGE
    assert standing(queue) == ("OUTAGE", "JMS_SELECTOR")
    assert "site = = 'X'" in QueuePartition.objects.get(queue=queue).state_text
    # Once it is corrected the queue goes on by itself.
    Queue.objects.filter(pk=queue.pk).update(selector="site = 'NASHUA'")
    QueuePartition.objects.update(resume_at=timezone.now())
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert (applied(), standing(queue)) == ([1, 0], ("RUNNING", ""))
