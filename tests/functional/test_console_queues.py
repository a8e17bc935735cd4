"""How queues stand in words, their page, and what people do with them, over HTTP."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.health.live_processes import live_processes
from devstack.server import Server
from integration.kafka import admin
from integration.models import Gap, PartitionLease, Provider, Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.queues import queues
from integration.selectors.queues.status import BY_CODE, NO_BEAT, NO_WORKER, Status, situation
from integration.store.stable_ends import TRANSACTION_HANGS, TRANSACTION_OPEN
from tests.support.rows import (
    a_blocked_queue,
    a_held,
    a_message_to_send,
    a_person,
    a_place,
    a_queue_row,
    some_live_processes,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
STATES = {
    "BLOCKED": "HEAD_HELD GAP TOPIC_RECREATED TOPIC_TRUNCATED TOPIC_GONE MORE_PARTITIONS "
    "KEYS_REMAPPED",
    "BRAKED": "TOO_MANY_OPEN_ERRORS SAME_FAILURE_IN_A_ROW TOO_MANY_PARKED",
    "WAITING": "KEYS_MOVED SERVICE_DISABLED SYSTEM_DISABLED HANDLER_MISSING ENDPOINT_DISABLED "
    "ENDPOINT_UNUSABLE",
    "BACKOFF": "RETRY_WAIT",
    "OUTAGE": "ENDPOINT_DOWN ENDPOINT_PAUSED KAFKA_UNAVAILABLE REGISTRY_AWAY REGISTRY_REFUSED "
    "REGISTRY_CERTIFICATE KAFKA_CERTIFICATE KAFKA_REFUSED KAFKA_RIGHTS KAFKA_PROTOCOL KAFKA_GROUP "
    "JMS_UNREACHABLE JMS_REFUSED JMS_CERTIFICATE JMS_RIGHTS JMS_SELECTOR JMS_ADDRESS_REFUSED "
    "JMS_IN_USE JMS_TOO_LARGE",
}
CODES = {code: state for state, codes in STATES.items() for code in codes.split()}


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


def lines_of(page: str) -> dict[str, str]:
    """The lines of a page's table of queues, by the queue's name."""
    lines = {}
    for line in re.findall(r"<tr>.*?</tr>", page, re.DOTALL):
        if name := re.search(r'class="fw-bold name"[^>]*>([^<]+)</a>', line):
            lines[name[1]] = unescape(line)
    return lines


def test_every_state_code_is_told_with_what_to_do_now(client: Client) -> None:
    some_live_processes()
    resume_at = timezone.now() + timedelta(seconds=40)
    for code, state in CODES.items():
        queue = a_queue_row(name=code)
        a_place(queue, state=state, state_code=code, state_text="the cause", resume_at=resume_at)
    first, second = (client.get(f"{reverse('queues')}?page={number}").text for number in (1, 2))
    listed = lines_of(first) | lines_of(second)
    urgent = lines_of(client.get(reverse("overview")).text)
    assert urgent
    rows = {row.name: row for row in queues.overview()}
    assert rows.keys() == listed.keys() == CODES.keys()
    for code, row in rows.items():
        assert row.situation.why[0].isupper(), code
        assert row.situation.why.endswith("."), code
        assert "{" not in row.situation.why, code
        assert row.situation.next_step.endswith("."), code
        page = unescape(client.get(reverse("queue", args=[code])).text)
        for told in (listed[code], page):
            assert row.status.label in told, code
            assert row.situation.next_step in told, code
        assert row.status.label in urgent.get(code, row.status.label)


def test_no_two_codes_share_a_sentence() -> None:
    assert len({told.why for told in BY_CODE.values()}) == len(BY_CODE)
    # Beside a partition that runs: told by tests of their own.
    assert set(BY_CODE) - {TRANSACTION_OPEN, TRANSACTION_HANGS} <= set(CODES)


def test_a_code_nobody_knows_is_told_with_the_engines_words() -> None:
    told = situation(PartitionState.BLOCKED, "NEW_ONE", "odd thing", topic="t", limit=1)
    assert "odd thing." in told.why


class TestStatus:
    def only(self) -> queues.QueueRow:
        return queues.overview()[0]

    def test_what_people_switched_explains_before_what_the_engine_found(self) -> None:
        queue, _, error = a_blocked_queue(paused=True, pause_reason="stocktaking")
        row = self.only()
        assert row.status is Status.PAUSED
        assert "stocktaking" in row.situation.why
        assert "Besides, it is blocked" in row.situation.why
        assert row.failure == error.pk
        Queue.objects.filter(pk=queue.pk).update(enabled=False)
        assert self.only().status is Status.OFF

    def test_a_queue_nobody_reads_is_told_as_the_cause_not_as_lag(self) -> None:
        queue = a_queue_row()
        place = a_place(queue, state_since=timezone.now() - timedelta(minutes=10))
        assert self.only().status is Status.NO_READER
        assert "5 messages wait" in self.only().situation.why
        PartitionLease.objects.create(
            partition=place,
            owner="worker-1",
            epoch=3,
            lock_pid=1,
            lock_backend_start=timezone.now(),
            lease_until=timezone.now() + timedelta(seconds=10),
            taken_at=timezone.now(),
        )
        assert self.only().status is Status.RUNNING
        assert self.only().partitions[0].owner == "worker-1"

    def test_a_queue_whose_worker_went_on_a_moment_ago_runs(self) -> None:
        long_ago = timezone.now() - timedelta(minutes=10)
        a_place(a_queue_row(), state_since=long_ago, progressed_at=timezone.now())
        assert self.only().status is Status.RUNNING

    def test_what_the_lag_monitor_has_not_seen_is_not_called_nothing(self) -> None:
        a_place(a_queue_row(), high_watermark=None)
        assert "not known" in self.only().situation.why
        assert self.only().lag is None

    def test_a_lease_that_lapsed_is_no_owner(self) -> None:
        place = a_place(a_queue_row(), state_since=timezone.now() - timedelta(minutes=10))
        PartitionLease.objects.create(
            partition=place,
            owner="worker-1",
            epoch=3,
            lock_pid=1,
            lock_backend_start=timezone.now(),
            lease_until=timezone.now() - timedelta(minutes=9),
            taken_at=timezone.now() - timedelta(minutes=10),
        )
        assert self.only().status is Status.NO_READER

    def test_an_idle_queue_runs(self) -> None:
        a_place(a_queue_row(), next_offset=15, state_since=timezone.now() - timedelta(minutes=10))
        assert self.only().status is Status.RUNNING

    def test_a_queue_without_a_position_has_not_started(self) -> None:
        a_queue_row()
        assert self.only().status is Status.NOT_STARTED
        Queue.objects.update(start_from="group", start_group="former")
        assert "former" in self.only().situation.why

    def test_the_worst_partition_speaks_for_the_queue(self) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        a_place(queue, partition=1, state="BRAKED", state_code="TOO_MANY_OPEN_ERRORS")
        a_place(queue, partition=2, state="OUTAGE", state_code="KAFKA_UNAVAILABLE")
        assert self.only().status is Status.BRAKED
        assert self.only().lag == 15

    def test_open_failures_are_counted_by_state(self) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        now = timezone.now()
        for offset, state in enumerate(["HOLD", "HOLD", "RETRY", "READY", "DELETED", "RESOLVED"]):
            a_held(queue, offset, state=state, not_before=now)
        row = self.only()
        assert (row.held, row.retrying) == (2, 1)


class TestNobodyAlive:
    """What was found by a worker that lives no more is told after that none lives."""

    def only(self) -> queues.QueueRow:
        return queues.overview(live_processes())[0]

    def test_a_stale_outage_is_told_after_the_missing_worker(self, client: Client) -> None:
        queue = a_queue_row()
        past = timezone.now() - timedelta(hours=1)
        text = "No broker answers."
        a_place(queue, state="OUTAGE", state_code="KAFKA_UNAVAILABLE", state_text=text)
        queue.partitions.update(resume_at=past, state_since=past)
        row = self.only()
        assert row.status is Status.NO_READER
        assert row.situation.why.startswith(NO_WORKER.why)
        assert text in row.situation.why
        assert "celery -A config worker -Q celery" in row.situation.next_step
        for address in (reverse("overview"), reverse("queue", args=[queue.name])):
            assert NO_WORKER.why in client.get(address).text

    @pytest.mark.parametrize("state", ["OUTAGE", "BACKOFF"])
    def test_a_try_that_nobody_made_is_told_although_workers_live(self, state: str) -> None:
        some_live_processes()
        place = a_place(a_queue_row(), state=state, resume_at=timezone.now() - timedelta(hours=1))
        assert self.only().status is Status.NO_READER
        assert "minutes overdue" in self.only().situation.why
        QueuePartition.objects.filter(pk=place.pk).update(resume_at=timezone.now())
        assert self.only().status.name == state

    @pytest.mark.parametrize("state", ["RUNNING", "WAITING"])
    def test_whatever_was_found_is_second(self, state: str) -> None:
        a_place(a_queue_row(), state=state)
        assert self.only().status is Status.NO_READER
        assert self.only().situation.why.startswith(NO_WORKER.why)

    def test_what_a_person_has_to_decide_stays_and_the_worker_is_told_first(self) -> None:
        a_blocked_queue()
        row = self.only()
        assert row.status is Status.BLOCKED
        assert row.situation.why.startswith(f"{NO_WORKER.why} Besides, it is blocked: ")

    def test_without_beat_a_queue_that_nobody_reads_is_told_why(self) -> None:
        some_live_processes(beats=False)
        a_queue_row()
        assert self.only().status is Status.NO_READER
        assert self.only().situation.why.startswith(NO_BEAT.why)

    def test_without_beat_a_queue_at_work_is_not_alarmed(self) -> None:
        some_live_processes(beats=False)
        a_place(a_queue_row(), next_offset=15)
        assert self.only().status is Status.RUNNING

    def test_an_outbound_queue_needs_the_relay(self) -> None:
        a_queue_row(direction="outbound")
        assert self.only().status is Status.NO_SENDER
        assert "relay" in self.only().situation.why
        some_live_processes()
        assert self.only().status is Status.RUNNING

    def test_the_first_page_says_who_is_missing(self, client: Client) -> None:
        assert "is alive" not in client.get(reverse("overview")).text, "nothing to do yet"
        a_place(a_queue_row())
        page = client.get(reverse("overview")).text
        for what, lack in (
            ("Worker down", "No worker for queues"),
            ("Beat down", "No beat"),
            ("Relay down", "No worker for the relay"),
        ):
            assert f"<strong>{what}.</strong> {lack} is alive" in page
        some_live_processes()
        assert "is alive" not in client.get(reverse("overview")).text


class TestOutbound:
    def test_its_page_shows_the_outbox_and_no_partitions(self, client: Client) -> None:
        some_live_processes()
        queue = a_queue_row(direction="outbound")
        for state in ("PENDING", "STAMPED", "PUBLISHED"):
            a_message_to_send(queue, state)
        a_message_to_send(queue, "PENDING", topic="elsewhere")
        a_message_to_send(queue, "DEAD", strict_queue=queue.pk)
        page = client.get(reverse("queue", args=[queue.name])).text
        assert "Partitions" not in page
        assert "<dt>Waiting to be sent</dt><dd>2, the oldest" in page
        assert "<dt>Refused by Kafka</dt><dd>1," in page
        for verb in ("pause", "disable"):
            assert reverse(verb, args=[queue.name]) not in page, "it would stop no sending"

    def test_one_that_has_nothing_to_send_says_so(self, client: Client) -> None:
        queue = a_queue_row("continuous", direction="outbound")
        page = client.get(reverse("queue", args=[queue.name])).text
        assert "<dt>Waiting to be sent</dt><dd>nothing</dd>" in page
        assert "<dt>Refused by Kafka</dt><dd>none</dd>" in page
        assert "nobody now" in page


def test_the_most_urgent_queue_comes_first(client: Client) -> None:
    a_place(a_queue_row(name="a-runs"))
    a_blocked_queue(name="z-blocked")
    page = client.get(reverse("overview")).text
    assert page.index("z-blocked") < page.index("a-runs")


def test_an_empty_installation_is_told_where_to_begin(client: Client) -> None:
    assert "No queue yet" in client.get(reverse("overview")).text


def test_the_number_of_statements_does_not_grow_with_the_queues(
    client: Client, django_assert_num_queries: object
) -> None:
    for _ in range(2):
        for _ in range(4):
            queue = a_queue_row("continuous")
            for number in range(3):
                a_place(queue, partition=number)
        # The frame asks for the session, the person, their rights and limit, the deployment and the
        # menu's counts (7); the rest is the page's own.
        for address, count in (
            (reverse("overview"), 25),
            (reverse("queues"), 11),
            (reverse("queue", args=[queue.name]), 19),
        ):
            with django_assert_num_queries(count):  # type: ignore[operator] # a fixture
                client.get(address)


class TestVerbs:
    def test_pause_resume_and_a_second_click(self, client: Client) -> None:
        queue = a_queue_row()
        a_place(queue)
        pause = reverse("pause", args=[queue.name])
        answer = client.post(pause, {"reason": "stocktaking"})
        assert (answer.status_code, answer["Location"]) == (
            303,
            reverse("queue", args=[queue.name]),
        )
        assert "stocktaking" in client.get(reverse("queue", args=[queue.name])).text
        again = client.post(pause)
        assert again.status_code == 409
        assert "otto" in again.text
        assert client.post(reverse("resume", args=[queue.name])).status_code == 303

    def test_a_stopped_queue_offers_resume(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_place(queue, state="BRAKED", state_code="TOO_MANY_OPEN_ERRORS")
        address = reverse("resume", args=[queue.name])
        assert address in client.get(reverse("queue", args=[queue.name])).text
        client.post(address)
        assert QueuePartition.objects.get().state == "RUNNING"

    def test_a_gap_is_acknowledged_on_the_queues_page(self, client: Client) -> None:
        queue = a_queue_row()
        place = a_place(queue, state="BLOCKED", state_code="GAP")
        gap = Gap.objects.create(
            partition=place,
            topic_uuid="u",
            from_offset=1_200,
            to_offset=1_500,
            reason="EXPIRED",
            found_at=timezone.now(),
        )
        address = reverse("acknowledge-gap", args=[queue.name, gap.pk])
        page = client.get(reverse("queue", args=[queue.name])).text
        assert address in page
        assert "300" in page
        assert client.post(address).status_code == 303
        assert client.post(address).status_code == 409
        assert "otto" in client.get(reverse("queue", args=[queue.name])).text

    def test_an_unknown_queue_is_a_page_of_its_own(self, client: Client) -> None:
        for name in ("queue", "flow"):
            assert client.get(reverse(name, args=["nowhere"])).status_code == 404
        assert client.post(reverse("pause", args=["nowhere"])).status_code == 404

    @pytest.mark.parametrize("code", ["TOPIC_RECREATED", "TOPIC_TRUNCATED", "TOPIC_GONE"])
    def test_a_changed_topic_offers_its_ways_out(self, client: Client, code: str) -> None:
        queue = a_queue_row()
        a_place(queue, state="BLOCKED", state_code=code)
        page = client.get(reverse("queue", args=[queue.name])).text
        for name in ("adopt-start", "adopt-end", "stay"):
            assert reverse(name, args=[queue.name]) in page
        assert client.post(reverse("stay", args=[queue.name])).status_code == 303
        assert queue.changes.get().action == "stay blocked"

    def test_a_head_leads_to_its_failure(self, client: Client) -> None:
        queue, _, error = a_blocked_queue()
        page = client.get(reverse("queue", args=[queue.name])).text
        assert reverse("failure", args=[error.pk]) in page


class TestWithKafka:
    def test_adopting_asks_the_broker_what_the_topic_is_now(
        self, client: Client, kafka: Server
    ) -> None:
        provider = Provider.objects.create(name="real", bootstrap_servers=kafka.bootstrap)
        admin.create_topic(provider, "adopted-topic", partitions=1)
        queue = a_queue_row(provider=provider, topic="adopted-topic")
        a_place(queue, state="BLOCKED", state_code="TOPIC_RECREATED")
        assert client.post(reverse("adopt-start", args=[queue.name])).status_code == 303
        facts = admin.topic_facts(provider, "adopted-topic")
        place = QueuePartition.objects.get()
        assert facts is not None
        assert (place.state, place.next_offset) == ("RUNNING", 0)
        assert place.topic_uuid == facts.topic_uuid
        assert Gap.objects.get().to_offset == 15

    def test_a_topic_that_is_gone_cannot_be_adopted(self, client: Client, kafka: Server) -> None:
        provider = Provider.objects.create(name="real", bootstrap_servers=kafka.bootstrap)
        queue = a_queue_row(provider=provider, topic="never-made")
        a_place(queue, state="BLOCKED", state_code="TOPIC_GONE")
        answer = client.post(reverse("adopt-start", args=[queue.name]))
        assert answer.status_code == 409
        assert "does not exist" in answer.text

    def test_the_flow_names_each_link(self, client: Client, kafka: Server) -> None:
        provider = Provider.objects.create(name="real", bootstrap_servers=kafka.bootstrap)
        queue = a_queue_row(provider=provider, topic="never-made")
        page = client.get(reverse("flow", args=[queue.name])).text
        for link in ("Provider", "Topic", "Worker", "Position"):
            assert link in page
        assert "broken" in page
