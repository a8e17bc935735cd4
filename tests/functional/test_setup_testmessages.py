"""Test messages over HTTP: sent through the outbox, followed to every outcome, found again fast."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.models import Limit
from devstack.server import Server
from integration.models import (
    ConfigurationChange,
    EnterpriseService,
    ExternalSystem,
    MessageTrack,
    OutboxRow,
    Queue,
)
from integration.runs.relay import run_relay
from integration.selectors.scope import EVERYTHING
from integration.selectors.setup import testmessages as selectors
from integration.selectors.tracking import rows
from tests.functional.relay_world import nothing_left
from tests.support.builders import a_queue
from tests.support.flows import drain
from tests.support.kafka_world import Kafka
from tests.support.rows import (
    a_held,
    a_message_to_send,
    a_person,
    a_queue_row,
    some_live_processes,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "eve"))
    return client


def written(client: Client, queue: Queue, **fields: Any) -> str:
    """Send it by the form, without a relay; the address of its outcome."""
    form = {"payload": '{"n": 1}', "wrapped": "on", **fields}
    answer = client.post(reverse("test-message", args=[queue.name]), form)
    assert answer.status_code == 303, answer.context["form"].errors
    return str(answer["Location"])


def relayed(queue: Queue) -> None:
    run_relay(queue.provider_id, 0, stop=nothing_left)


def the_id(address: str) -> str:
    return address.rstrip("/").rsplit("/", 1)[-1]


class TestSending:
    def test_it_is_one_row_of_the_outbox_and_one_of_the_audit(self, client: Client) -> None:
        queue = a_queue_row(system=ExternalSystem.objects.create(name="erp"))
        address = written(
            client, queue, interface="OBEY", key="K1", headers="tenant: 7\nempty:", reason="a look"
        )
        row = OutboxRow.objects.get()
        message_id = the_id(address)
        assert (row.topic, row.state, row.message_id) == (queue.topic, "PENDING", message_id)
        assert bytes(row.key) == b"K1"
        envelope = json.loads(bytes(row.value))
        assert (envelope["INTERFACE"], envelope["MEAMessageID"]) == ("OBEY", message_id)
        assert envelope["payload"] == '{"n": 1}'
        names = [name for name, _ in row.headers]
        assert {"tenant", "empty", "sluice-test", "sluice-message-id"} <= set(names)
        change = ConfigurationChange.objects.get()
        assert (change.kind, change.subject, change.action) == ("testmessage", message_id, "send")
        assert (change.actor, change.reason, change.system_id) == ("eve", "a look", queue.system_id)
        assert "payload" not in change.after

    def test_without_the_envelope_the_facts_are_in_the_headers(self, client: Client) -> None:
        queue = a_queue_row()
        written(client, queue, wrapped="", interface="OBEY", payload="<A/>")
        row = OutboxRow.objects.get()
        assert bytes(row.value) == b"<A/>"
        assert "sluice-interface" in [name for name, _ in row.headers]
        assert row.key is None

    def test_an_outbound_queue_that_keeps_its_order_keeps_this_one_in_it(
        self, client: Client
    ) -> None:
        queue = a_queue_row(direction="outbound")
        written(client, queue)
        assert OutboxRow.objects.get().strict_queue == queue.pk

    def test_nothing_is_left_of_a_sending_that_fails(self, client: Client) -> None:
        """The audit refuses the row: the message must not be on its way."""
        queue = a_queue_row()
        form = {"payload": "{}", "wrapped": "on"}
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE integration_configurationchange ADD CONSTRAINT never "
                "CHECK (kind <> 'testmessage')"
            )
        try:
            client.raise_request_exception = False
            answer = client.post(reverse("test-message", args=[queue.name]), form)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE integration_configurationchange DROP CONSTRAINT never")
        assert answer.status_code == 500
        assert not OutboxRow.objects.exists()

    @pytest.mark.parametrize(
        ("field", "value", "told"),
        [
            ("payload", "", "required"),
            ("headers", "no colon", "Line 1 is not a header"),
            ("headers", "Sluice-Sender: me", "reserved"),
            ("headers", "a: 1\nümlaut: 2", "Line 2"),
        ],
    )
    def test_a_mistake_is_told_beside_its_field_and_nothing_is_sent(
        self, client: Client, field: str, value: str, told: str
    ) -> None:
        queue = a_queue_row()
        form = {"payload": "{}", field: value}
        answer = client.post(reverse("test-message", args=[queue.name]), form)
        assert answer.status_code == 422
        assert told in answer.context["form"].errors[field][0]
        assert not OutboxRow.objects.exists()
        assert not ConfigurationChange.objects.exists()


class TestForm:
    def test_a_service_nobody_takes_is_told_before(self, client: Client) -> None:
        queue = a_queue_row()
        page = client.get(reverse("test-message", args=[queue.name])).text
        assert "No service is named, so the message will be put on hold." in page

    def test_a_service_leads_to_its_queues(self, client: Client) -> None:
        service = EnterpriseService.objects.create(interface="OBEY")
        other = a_queue_row()
        address = reverse("service-test", args=[service.pk])
        assert other.name in client.get(address).text
        queue = a_queue_row(default_service=service)
        only = client.get(address)["Location"]
        assert only == f"{reverse('test-message', args=[queue.name])}?service={service.pk}"


class TestOutcome:
    """From the form to the end, by the real relay, Kafka and run."""

    def test_applied(self, client: Client, kafka: Server) -> None:
        queue = a_queue(Kafka(kafka.bootstrap))
        address = written(client, queue, interface="OBEY", payload='{"n": 1, "do": "ok"}')
        page = client.get(address).text
        assert 'hx-trigger="every' in page
        relayed(queue)
        on_its_way = client.get(address).context["journey"]
        assert (on_its_way.is_sent, on_its_way.is_over) == (True, False)
        drain(queue)
        page = client.get(address).text
        assert "It works: applied" in page
        assert "hx-trigger" not in page
        fragment = client.get(address, headers={"HX-Request": "true"})
        assert "<html" not in fragment.text
        assert "It works: applied" in fragment.text

    def test_held_with_the_failure_its_code_and_its_sentence(
        self, client: Client, kafka: Server
    ) -> None:
        queue = a_queue(Kafka(kafka.bootstrap))
        address = written(client, queue, payload='{"n": 1, "do": "permanent"}')
        relayed(queue)
        drain(queue)
        error = queue.errors.get()
        page = client.get(address)
        journey = page.context["journey"]
        assert (journey.is_over, journey.works, journey.failure) == (True, False, error.pk)
        assert reverse("failure", args=[error.pk]) in page.text
        assert f"{error.code}: {error.text}" in page.text

    def test_an_outbound_one_ends_in_kafka(self, client: Client, kafka: Server) -> None:
        broker = Kafka(kafka.bootstrap)
        queue = a_queue(broker)
        Queue.objects.update(direction="outbound")
        address = written(client, queue)
        relayed(queue)
        assert client.get(address).context["journey"].works
        assert len(broker.read_all(queue.topic)) == 1

    @pytest.mark.parametrize(
        ("ended", "told"),
        [("SUPERSEDED", "It arrived: superseded"), ("DUPLICATE", "dropped as a repeat")],
    )
    def test_ends_that_write_nothing(self, client: Client, ended: str, told: str) -> None:
        queue = a_queue_row()
        address = written(client, queue)
        OutboxRow.objects.update(state="PUBLISHED", published_at=timezone.now())
        a_track(queue, the_id(address), ended)
        assert told in client.get(address).text

    def test_a_tracking_that_cleanup_emptied_does_not_hide_what_comes(self, client: Client) -> None:
        with connection.cursor() as cursor:
            sequence = "pg_get_serial_sequence('integration_messagetrack', 'id')"
            cursor.execute(f"SELECT setval({sequence}, nextval({sequence}) + 1000000)")
        queue = a_queue_row()
        address = written(client, queue)
        OutboxRow.objects.update(state="PUBLISHED", published_at=timezone.now())
        a_track(queue, the_id(address), "DUPLICATE")
        assert client.get(address).context["journey"].is_over

    def test_refused_by_kafka_and_given_up_by_a_person(self, client: Client) -> None:
        queue = a_queue_row()
        address = written(client, queue)
        OutboxRow.objects.update(state="DEAD", dead_text="too large")
        assert "Kafka refused it: too large" in client.get(address).text
        OutboxRow.objects.update(state="CANCELLED")
        assert "gave it up" in client.get(address).text

    @pytest.mark.parametrize(
        ("state", "told"),
        [("RESOLVED", "It works: applied"), ("DELETED", "a person deleted it")],
    )
    def test_what_failed_and_was_closed(self, client: Client, state: str, told: str) -> None:
        queue = a_queue_row()
        address = written(client, queue)
        closed = {"state": state, "ended": "APPLIED", "closed_at": timezone.now()}
        a_held(queue, message_id=the_id(address), **closed)
        assert told in client.get(address).text

    def test_one_that_will_be_tried_again_is_followed_on(self, client: Client) -> None:
        queue = a_queue_row()
        address = written(client, queue)
        a_held(queue, message_id=the_id(address), state="RETRY", not_before=timezone.now())
        page = client.get(address)
        journey = page.context["journey"]
        assert (journey.is_over, journey.failure) == (False, queue.errors.get().pk)
        assert 'hx-trigger="every' in page.text

    def test_one_that_waits_behind_another_of_its_key_leads_there(self, client: Client) -> None:
        queue = a_queue_row("continuous", ordering="key")
        address = written(client, queue)
        of_key = {"order_key": b"A", "arrival_batch": 1}
        first = a_held(queue, 5, arrival_index=0, **of_key)
        own = {"message_id": the_id(address), "state": "PARKED", "parked_at": timezone.now()}
        parked = a_held(queue, 6, arrival_index=1, **own, **of_key)
        page = client.get(address)
        journey = page.context["journey"]
        assert (journey.is_over, journey.works) == (True, False)
        assert (journey.ahead, journey.failure) == (first.pk, parked.pk)
        assert "waits behind an earlier failure of its key" in page.text
        for error in (first, parked):
            assert reverse("failure", args=[error.pk]) in page.text
        assert "hx-trigger" not in page.text


@pytest.mark.usefixtures("unanswered")
class TestNothingHappens:
    def late(self) -> None:
        ConfigurationChange.objects.update(at=timezone.now() - timedelta(seconds=11))

    def test_the_missing_relay_is_named(self, client: Client) -> None:
        queue = a_queue_row()
        address = written(client, queue)
        assert client.get(address).context["missing_links"] == []
        self.late()
        assert "relay" in missing(client.get(address))

    def test_a_paused_queue_is_named_once_it_is_in_kafka(self, client: Client) -> None:
        some_live_processes()
        queue = a_queue_row(paused=True, pause_reason="stock-taking")
        address = written(client, queue)
        OutboxRow.objects.update(state="PUBLISHED", published_at=timezone.now())
        self.late()
        page = client.get(address)
        assert "queue" in missing(page)
        assert "relay" not in missing(page)
        assert "stock-taking" in page.text


def missing(page: Any) -> list[str]:
    """The links of the flow that the page says are broken."""
    return [link.name for link in page.context["missing_links"]]


def a_track(queue: Queue, message_id: str, ended: str = "APPLIED") -> MessageTrack:
    return MessageTrack.objects.create(
        queue=queue,
        partition=0,
        offset=1,
        arrival_batch=1,
        message_id=message_id,
        interface="OBEY",
        ended=ended,
    )


def test_it_is_found_again_without_reading_what_was_tracked_before(client: Client) -> None:
    queue = a_queue_row()
    copies = (
        'INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, '
        "message_id, interface, ended) SELECT %s, 0, n, n, 'm-' || n, 'I', 'APPLIED' "
        "FROM generate_series(1, %s) n"
    )
    with connection.cursor() as cursor:
        cursor.execute(copies, [queue.pk, 100_000])
        cursor.execute("ANALYZE integration_messagetrack")
    address = written(client, queue)
    OutboxRow.objects.update(state="PUBLISHED", published_at=timezone.now())
    a_track(queue, the_id(address))
    with CaptureQueriesContext(
        connection,
    ) as asked:
        found = selectors.journey(the_id(address), EVERYTHING)
    assert found is not None
    assert found.works
    # Five, and what the search index is read under: a savepoint, its settings, and its end.
    assert len(asked) == 5 + 3
    look = next(q["sql"] for q in asked if "messagetrack" in q["sql"])
    with rows.reading(rows.INDEX_ONLY) as cursor:
        cursor.execute(f"EXPLAIN {look}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Index" in plan
    assert "Seq Scan" not in plan


class TestRights:
    @pytest.mark.parametrize("role", ["", "Viewers", "Operators"])
    def test_who_may_not_write_payloads_sends_nothing(self, role: str) -> None:
        queue = a_queue_row()
        client = Client()
        client.force_login(a_person(role))
        address = reverse("test-message", args=[queue.name])
        assert client.get(address).status_code == 403
        assert client.post(address, {"payload": "{}"}).status_code == 403
        assert not OutboxRow.objects.exists()

    def test_a_viewer_may_follow_it_and_sees_no_payload(self, client: Client) -> None:
        queue = a_queue_row()
        address = written(client, queue, payload='{"salary": "well paid"}')
        viewer = Client()
        viewer.force_login(a_person("Viewers"))
        page = viewer.get(address)
        assert page.status_code == 200
        assert "well paid" not in page.text

    def test_what_is_out_of_scope_does_not_exist(self, client: Client) -> None:
        queue = a_queue_row(system=ExternalSystem.objects.create(name="theirs"))
        address = written(client, queue)
        person = a_person("Editors")
        Limit.objects.create(person=person).systems.add(ExternalSystem.objects.create(name="mine"))
        limited = Client()
        limited.force_login(person)
        assert limited.get(address).status_code == 404
        assert limited.get(reverse("test-message", args=[queue.name])).status_code == 404

    def test_what_is_no_test_message_has_no_page(self, client: Client) -> None:
        queue, other = a_queue_row(), a_queue_row()
        row = a_message_to_send(queue, message_id="m-1")
        assert row.pk
        unknown = reverse("test-message-outcome", args=[queue.name, "m-1"])
        assert client.get(unknown).status_code == 404
        address = written(client, queue)
        elsewhere = reverse("test-message-outcome", args=[other.name, the_id(address)])
        assert client.get(elsewhere).status_code == 404
