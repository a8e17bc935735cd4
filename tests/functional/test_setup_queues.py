"""Setting up queues over HTTP: topics made and adopted, starts, effects, mistakes, audit."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.models import CronInstance
from devstack.server import Server
from integration.kafka import admin
from integration.models import (
    ConfigurationChange,
    Provider,
    Queue,
)
from integration.store.configuration import snapshot
from tests.functional.setup_world import NEW, a_form, a_name, made, mistakes
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
WEEK = 604_800


@pytest.fixture
def provider(kafka: Server) -> Provider:
    return Provider.objects.create(name="main", bootstrap_servers=kafka.bootstrap)


@pytest.fixture
def broker(kafka: Server) -> Kafka:
    return Kafka(kafka.bootstrap)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Administrators", "ada"))
    return client


class TestNewTopic:
    def test_queue_topic_position_instance_and_one_row_of_audit_are_made(
        self, client: Client, provider: Provider
    ) -> None:
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="sequential")
        queue = made(client, form | {"retention_seconds": "14 d", "reason": "the ERP goes live"})
        topic = admin.describe(provider, name)
        assert (topic.partitions, topic.retention_ms) == (1, 14 * 86_400_000)
        assert queue.retention_seconds == 14 * 86_400
        assert [(p.partition, p.next_offset) for p in queue.partitions.all()] == [(0, 0)]
        assert CronInstance.objects.get(queue=queue).task == "queue_consumer"
        change = ConfigurationChange.objects.get(kind="queue", subject=str(queue.pk))
        assert (change.actor, change.action) == ("ada", "create")
        assert (change.reason, change.before) == ("the ERP goes live", None)
        assert change.after["topic"] == name

    def test_several_partitions_are_made_for_a_continuous_queue(
        self, client: Client, provider: Provider
    ) -> None:
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="continuous")
        queue = made(client, form | {"partitions": 3, "workers": 2})
        assert (queue.partitions.count(), queue.most_workers) == (3, 2)

    def test_workers_that_would_never_come_are_refused(
        self, client: Client, provider: Provider
    ) -> None:
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="sequential")
        assert "workers" in mistakes(client.post(reverse(NEW), form | {"workers": 2}))
        assert made(client, form | {"workers": 1}).most_workers == 1

    def test_a_group_is_joined_by_a_protocol(self, client: Client, provider: Provider) -> None:
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="sequential")
        assert form["group_protocol"] == "none"
        mistaken = client.post(reverse(NEW), form | {"group_id": "plant.orders"})
        assert "group_id" in mistakes(mistaken)
        joined = {"group_protocol": "classic", "group_id": "plant.orders"}
        queue = made(client, form | joined)
        assert snapshot(queue.pk, worker="w").group == ("classic", "plant.orders")
        facts = dict(client.get(reverse("queue", args=[name])).context["detail"].facts)
        assert "plant.orders" in facts["Consumer group"]

    def test_a_concurrency_is_for_continuous_queues_alone(
        self, client: Client, provider: Provider
    ) -> None:
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="sequential")
        assert "concurrency" in mistakes(client.post(reverse(NEW), form | {"concurrency": 8}))
        queue = made(client, form | {"concurrency": 8, "kind": "continuous"})
        assert snapshot(queue.pk, worker="w").threads == 8

    def test_a_two_phase_commit_and_its_second_database_are_chosen_where_they_can_be(
        self, client: Client, provider: Provider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = {**connections.settings["default"], "NAME": "ledger"}
        monkeypatch.setitem(connections.settings, "ledger", other)
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="continuous")
        both = {"two_phase": "on", "second_database": "ledger"}
        for field, wrong in (
            ("two_phase", {**both, "concurrency": 2}),
            ("second_database", {"second_database": "ledger"}),
            ("second_database", {**both, "second_database": "default"}),
        ):
            assert field in mistakes(client.post(reverse(NEW), form | wrong))
        queue = made(client, form | both)
        taken = snapshot(queue.pk, worker="w")
        assert (taken.two_phase, taken.second_database) == (True, "ledger")

    def test_sequential_has_one_partition_and_nothing_is_made(
        self, client: Client, provider: Provider
    ) -> None:
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="sequential")
        found = mistakes(client.post(reverse(NEW), form | {"partitions": 3}))
        assert "exactly one" in found["partitions"][0]
        assert name not in admin.topics(provider)
        assert not Queue.objects.exists()

    def test_a_topic_that_is_there_is_never_taken_for_a_new_one(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic()
        form = a_form(client, name=a_name(), provider=provider.pk, topic=topic, kind="sequential")
        found = mistakes(client.post(reverse(NEW), form))
        assert "exists already" in found["topic"][0]

    @pytest.mark.parametrize("topic", ["with space", "..", "ümlaut"])
    def test_names_that_kafka_refuses_are_told_at_the_field(
        self, client: Client, provider: Provider, topic: str
    ) -> None:
        form = a_form(client, name=a_name(), provider=provider.pk, topic=topic, kind="sequential")
        assert "topic" in mistakes(client.post(reverse(NEW), form))

    def test_an_error_queue_with_its_own_topic_is_made_in_one_go(
        self, client: Client, provider: Provider
    ) -> None:
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="continuous")
        form |= {"create_error_queue": "on", "error_queue_strict": "on"}
        errors = made(client, form).error_queue
        assert errors is not None
        assert (errors.name, errors.topic) == (f"{name}-errors", f"{name}.errors")
        assert errors.is_error_queue
        assert errors.strict_order
        assert CronInstance.objects.get(queue=errors).task == "error_queue_consumer"
        assert admin.describe(provider, errors.topic).partitions == 1
        for queue in (errors, Queue.objects.get(name=name)):
            assert ConfigurationChange.objects.filter(subject=str(queue.pk)).count() == 1

    def test_an_outbound_queue_needs_no_start_and_gets_no_position(
        self, client: Client, provider: Provider
    ) -> None:
        name = a_name()
        address = f"{reverse(NEW)}?direction=outbound"
        form = a_form(client, address, name=name, provider=provider.pk, topic=name)
        # Shown for the case that an endpoint is chosen; without one it is neither judged nor kept.
        queue = made(client, form | {"kind": "sequential", "max_retries": "many", "concurrency": 9})
        assert (queue.direction, queue.max_retries, queue.concurrency) == ("outbound", 3, 1)
        assert not queue.partitions.exists()
        assert not CronInstance.objects.filter(queue=queue).exists()


class TestAdoption:
    def adopting(
        self, client: Client, provider: Provider, topic: str, **more: Any
    ) -> dict[str, Any]:
        fields = {"name": a_name(), "kind": "continuous", "topic_from": "adopt"}
        fields |= {"provider": provider.pk, "topic": topic}
        return a_form(client, **(fields | more))

    def test_the_start_has_no_default_and_each_choice_is_counted(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic(**{"retention.ms": str(WEEK * 1000)})
        broker.send(topic, [{"n": n} for n in range(5)])
        form = self.adopting(client, provider, topic)
        assert "start_from" not in form
        answer = client.post(reverse(NEW), form)
        assert "start_from" in mistakes(answer)
        counted = {s.start_from: (s.reads, s.skips) for s in answer.context["effects"]["starts"]}
        assert counted == {"beginning": (5, 0), "end": (0, 5)}
        queue = made(client, form | {"start_from": "end"})
        assert queue.partitions.get().next_offset == 5

    def test_a_group_is_counted_and_one_without_a_position_is_refused(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic(**{"retention.ms": str(WEEK * 1000)})
        form = self.adopting(client, provider, topic, start_from="group", start_group="nobody")
        shown = client.post(reverse(NEW), form | {"show": "effect"})
        assert shown.status_code == 200
        assert "has no position" in shown.text
        assert "nobody" in mistakes(client.post(reverse(NEW), form))["start_group"][0]
        assert not Queue.objects.exists()

    def test_a_time_is_counted_and_resolved_once(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic(**{"retention.ms": str(WEEK * 1000)})
        broker.send(topic, [1, 2], timestamp=round(timezone.now().timestamp() * 1000) - 7_200_000)
        broker.send(topic, [3])
        hour_ago = timezone.now() - timedelta(hours=1)
        form = self.adopting(client, provider, topic, start_from="time")
        assert "start_time" in mistakes(client.post(reverse(NEW), form))
        form["start_time"] = f"{hour_ago:%Y-%m-%dT%H:%M}"
        shown = client.post(reverse(NEW), form | {"show": "effect"})
        last = shown.context["effects"]["starts"][-1]
        assert (last.reads, last.skips, last.start_from) == (1, 2, "time")
        assert shown.text.count(">chosen<") == 1
        queue = made(client, form)
        assert queue.partitions.get().next_offset == 2
        stored = ConfigurationChange.objects.get(kind="queue").after["start_time"]
        assert stored.startswith(f"{hour_ago:%Y-%m-%dT%H:%M}")

    def test_the_facts_and_what_does_not_fit_are_shown(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic(2, **{"retention.ms": "86400000", "retention.bytes": "5000000"})
        form = self.adopting(client, provider, topic, max_retries=100, retry_delay_seconds="1 h")
        page = client.post(reverse(NEW), form | {"show": "effect"}).text
        for fact in ("min.insync.replicas", "5,000,000", "86,400,000 (1 d)", "less than 7 d"):
            assert fact in page
        assert "longer than" in page
        assert "one copy only" in page

    def test_the_topics_own_time_limit_becomes_the_queues(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic(**{"retention.ms": "864000000"})
        form = self.adopting(client, provider, topic, start_from="beginning")
        assert made(client, form).retention_seconds == 864_000

    def test_what_the_topic_forbids_is_told_at_its_field(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        two = self.adopting(client, provider, broker.topic(2), kind="sequential")
        two["start_from"] = "end"
        assert "has 2 partitions" in mistakes(client.post(reverse(NEW), two))["kind"][0]
        compacted = self.adopting(client, provider, broker.topic(**{"cleanup.policy": "compact"}))
        compacted["start_from"] = "end"
        assert "compacted" in mistakes(client.post(reverse(NEW), compacted))["carrier"][0]
        taken = a_queue_row(provider=provider)
        twice = self.adopting(client, provider, taken.topic, start_from="end")
        assert "topic" in mistakes(client.post(reverse(NEW), twice))
        taken.delete()
        absent = self.adopting(client, provider, "no-such-topic", start_from="end")
        assert "does not exist" in mistakes(client.post(reverse(NEW), absent))["topic"][0]
        assert not Queue.objects.exists()


class TestEffects:
    def retries(self, client: Client, **fields: Any) -> str:
        address = f"{reverse('queue-new-effects')}?part=retry"
        answer = client.post(address, a_form(client, kind="sequential", **fields))
        assert answer.status_code == 200
        return answer.text

    def test_the_retry_policy_is_told_in_words(self, client: Client) -> None:
        listed = {"backoff": "list", "retry_delays_seconds": "10 s, 1 min, 5 min"}
        told = self.retries(client, **listed)
        for fact in ("3 retries", "10 s, 1 min, 5 min", "6 min 10 s"):
            assert fact in told
        assert "No retries" in self.retries(client, max_retries=0)
        assert "tried forever" in self.retries(client, unlimited_retries="on")
        assert "Correct the fields above" in self.retries(client, retry_delay_seconds="soon")

    def test_the_page_shows_it_without_javascript_and_saves_nothing(self, client: Client) -> None:
        form = a_form(client, name=a_name(), kind="sequential", max_retries=2)
        page = client.post(reverse(NEW), form | {"show": "effect"})
        assert page.status_code == 200
        assert "2 retries" in page.text
        assert not Queue.objects.exists()

    @pytest.mark.usefixtures("unanswered")
    def test_a_cluster_that_does_not_answer_is_told_in_its_place(self, client: Client) -> None:
        down = Provider.objects.create(name="down", bootstrap_servers="127.0.0.1:1")
        form = a_form(client, name=a_name(), kind="sequential", topic="t", provider=down.pk)
        page = client.post(f"{reverse('queue-new-effects')}?part=topic", form).text
        assert "provider down" in page
        refused = client.post(reverse(NEW), form)
        assert "does not answer" in mistakes(refused)["provider"][0]

    def test_a_link_to_an_effect_leads_to_the_form(self, client: Client) -> None:
        assert client.get(reverse("queue-new-effects"))["Location"] == reverse(NEW)


def test_an_error_queue_asked_for_before_a_provider_is_chosen_breaks_nothing(
    client: Client,
) -> None:
    form = a_form(client, name=a_name(), topic=a_name(), provider=None, create_error_queue="on")
    assert "provider" in mistakes(client.post(reverse(NEW), form))
    assert client.post(reverse(NEW), {**form, "show": "1"}).status_code == 200
