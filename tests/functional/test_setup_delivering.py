"""Setting up queues that deliver: their own fields, starts and effects, and what is refused."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from crontasks.models import CronInstance
from devstack.server import Server
from integration.models import (
    ConfigurationChange,
    Endpoint,
    ExternalSystem,
    Provider,
    Queue,
)
from tests.functional.setup_world import NEW, a_form, a_name, made, mistakes
from tests.support.channels import a_channel
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person, a_place, a_queue_row

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


class TestDelivery:
    """Outbound queues with an endpoint: what only the configuration file could set before."""

    def end(self, **fields: Any) -> Endpoint:
        system, _ = ExternalSystem.objects.get_or_create(name="shop")
        values: dict[str, Any] = {
            "endpoint_type": "http",
            "properties": {"url": "http://x.example"},
        }
        return Endpoint.objects.create(name="shop-in", system=system, **{**values, **fields})

    def delivering(self, client: Client, provider: Provider, **more: Any) -> dict[str, Any]:
        end = self.end()
        name = a_name()
        fields = {"name": name, "topic": name, "kind": "continuous", "system": end.system_id}
        fields |= {"provider": provider.pk, "endpoint": end.pk}
        return a_form(client, f"{reverse(NEW)}?direction=outbound", **(fields | more))

    def test_everything_of_it_is_set_by_the_form(self, client: Client, provider: Provider) -> None:
        chosen = {"ordering": "key", "concurrency": 4, "max_retries": 7, "backoff": "list"}
        chosen |= {
            "failure_threshold": 11,
            "max_open_errors": 12,
            "crash_limit": 2,
            "batch_size": 40,
        }
        durations = {"retry_delays_seconds": "5 s, 1 min", "handler_timeout_seconds": "20 s"}
        form = self.delivering(client, provider, **chosen, **durations, partitions=3)
        queue = made(client, form)
        assert {name: getattr(queue, name) for name in chosen} == chosen
        assert (queue.retry_delays_seconds, queue.handler_timeout_seconds) == ([5, 60], 20)
        assert [p.next_offset for p in queue.partitions.all()] == [0, 0, 0]
        assert CronInstance.objects.get(queue=queue).task == "queue_consumer"
        change = ConfigurationChange.objects.get(kind="queue", subject=str(queue.pk))
        assert (change.after["endpoint"], change.after["ordering"]) == ("shop-in", "key")
        copy = a_form(client, f"{reverse(NEW)}?like={queue.name}")
        assert (copy["concurrency"], copy["ordering"], copy["endpoint"]) == (
            4,
            "key",
            queue.endpoint_id,
        )

    def test_an_endpoint_begins_the_form(self, client: Client) -> None:
        end = self.end()
        assert f"{reverse(NEW)}?endpoint={end.pk}" in client.get(f"/endpoints/{end.pk}/").text
        form = client.get(reverse(NEW), {"endpoint": end.pk}).context["form"]
        found = {name: form[name].value() for name in ("direction", "endpoint", "system")}
        assert found == {"direction": "outbound", "endpoint": end.pk, "system": end.system_id}

    def test_each_direction_has_its_own_fields(self, client: Client) -> None:
        inbound, outbound = (
            client.get(reverse(NEW), {"direction": way}).context["form"].fields
            for way in ("inbound", "outbound")
        )
        assert inbound.keys() - outbound.keys() == {
            "default_service",
            "dedupe",
            "order_path",
            "carrier",
            "is_error_queue",
            "strict_order",
            "workers",
            "group_protocol",
            "group_id",
            "two_phase",
        }
        assert outbound.keys() - inbound.keys() == {"endpoint"}

    def test_an_adopted_topic_needs_a_start(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic(**{"retention.ms": str(WEEK * 1000)})
        broker.send(topic, [1, 2, 3])
        form = self.delivering(client, provider, topic=topic, topic_from="adopt")
        answer = client.post(reverse(NEW), form)
        assert "start_from" in mistakes(answer)
        assert [(s.reads, s.skips) for s in answer.context["effects"]["starts"]] == [(3, 0), (0, 3)]
        assert made(client, form | {"start_from": "end"}).partitions.get().next_offset == 3

    def test_a_queue_that_partners_read_can_be_delivered_later(
        self, client: Client, provider: Provider, broker: Kafka
    ) -> None:
        topic = broker.topic(**{"retention.ms": str(WEEK * 1000)})
        broker.send(topic, [1, 2, 3])
        queue = a_queue_row(provider=provider, topic=topic, direction="outbound", start_from="end")
        address, end = reverse("queue-change", args=[queue.name]), self.end()
        form = a_form(client, address, endpoint=end.pk, max_retries=1)
        assert "start_from" not in form
        assert "start_from" in mistakes(client.post(address, form))
        answer = client.post(address, form | {"start_from": "beginning"})
        assert answer.status_code == 303, answer.context["form"].errors
        queue.refresh_from_db()
        assert (queue.endpoint, queue.max_retries) == (end, 1)
        assert queue.partitions.get().next_offset == 0
        assert "start_from" not in client.get(address).context["form"].fields

        def told(**entered: Any) -> list[str]:
            form = a_form(client, address, show="effect", **entered)
            return client.post(address, form).context["effects"]["delivery"]

        stays, taken_away = told(), told(endpoint="")
        Queue.objects.filter(pk=queue.pk).update(endpoint=None)
        given_back = told(endpoint=end.pk)
        assert "in the meantime are sent" in taken_away[0]
        assert [word for word in given_back if word not in stays] == [given_back[-1]]
        assert "Delivery continues from the position" in given_back[-1]

    def test_an_inbound_queue_has_no_endpoint(self) -> None:
        queue = a_queue_row()
        queue.endpoint = self.end()
        with pytest.raises(ValidationError) as refusal:
            queue.full_clean()
        assert set(refusal.value.error_dict) == {"endpoint"}

    def test_another_partners_endpoint_is_refused(self, client: Client, provider: Provider) -> None:
        form = self.delivering(client, provider)
        other = ExternalSystem.objects.create(name="other")
        answer = client.post(reverse(NEW), form | {"system": other.pk})
        assert "another external system" in mistakes(answer)["endpoint"][0]
        assert not Queue.objects.exists()

    @pytest.mark.usefixtures("unanswered")
    def test_an_endpoint_that_a_target_of_the_queue_forbids_is_refused(
        self, client: Client
    ) -> None:
        channel = a_channel("ORDERS", "bank")
        queue = channel.targets.get().queue
        Queue.objects.filter(pk=queue.pk).update(system=None)
        address = reverse("queue-change", args=[queue.name])
        form = a_form(client, address, endpoint=self.end().pk, start_from="end", system=None)
        assert "ORDERS to bank" in mistakes(client.post(address, form))["endpoint"][0]

    def test_the_effects_are_told_without_javascript(
        self, client: Client, provider: Provider
    ) -> None:
        form = self.delivering(client, provider, ordering="key", concurrency=40, show="effect")
        shown = client.post(reverse(NEW), form)
        told = shown.context["effects"]
        assert "Up to 8 calls at a time; each key keeps its order." in told["order"][0]
        assert told["delivery"][0] == "Each message is delivered to shop-in (HTTP, shop)."
        assert "later messages of its key wait" in shown.text
        bare = client.post(reverse(NEW), form | {"endpoint": ""}).context["effects"]
        assert "the partner reads the topic" in bare["delivery"][0]
        assert not Queue.objects.exists()


class TestKeyOrderOfInboundQueues:
    """It is set up like everything else, and the queue's page says so."""

    def test_it_is_chosen_in_the_form_and_shown(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        address = reverse("queue-change", args=[queue.name])
        assert client.post(address, a_form(client, address, ordering="key")).status_code == 303
        queue.refresh_from_db()
        assert queue.keeps_keys_in_order
        page = client.get(reverse("queue", args=[queue.name]))
        assert "Order within a key" in page.text
