"""JMS brokers and their queues in the console: entered, shown, tested, and what they cannot do."""

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.builtin.dead_letters import DeadLetterResend, ResendParameters
from crontasks.builtin.lag_monitor import LagMonitor, LagParameters
from crontasks.builtin.rescue import Rescue, RescueParameters
from crontasks.builtin.retention_sync import RetentionSync, SyncParameters
from crontasks.bulk.asking import preview
from crontasks.bulk.errors import BulkError
from crontasks.health.flow import check_flow
from crontasks.outcome import Context, Outcome, RunState
from integration.actions import positions, queue_stops, testmessages
from integration.actions.configuration import Author
from integration.actions.errors import QueueAtJmsError
from integration.actions.testmessages import Draft
from integration.handlers.channels import UnknownQueueError, target_of_queue
from integration.kafka.client import connection
from integration.kafka.errors import ProviderUnusableError
from integration.models import (
    ChannelTarget,
    Endpoint,
    ExternalSystem,
    MessageError,
    OutboxRow,
    Provider,
    Queue,
    QueueChange,
    QueuePartition,
)
from integration.policy.states import PartitionState
from integration.restore.traces import find
from integration.runs.relay import shards
from integration.selectors.outbox.relaying import relays
from integration.selectors.setup.examination import examined
from integration.store.configuration import snapshot
from integration.values import TopicFacts
from tests.functional.setup_world import NEW, a_form, a_name, made, mistakes
from tests.support.channels import a_channel
from tests.support.every_page import a_world, jms_pages
from tests.support.http_api import a_partner, forget, problem
from tests.support.rows import a_held, a_jms_provider_row, a_jms_queue_row
from tests.support.set_up import forms, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


def run(task: object, parameters: object) -> Outcome:
    context = Context(instance_id=1, scheduled_at=timezone.now())
    return task.run(parameters, context)  # type: ignore[attr-defined, no-any-return] # a cron task


class TestProvider:
    def test_what_only_kafka_has_is_not_judged_and_not_kept(self, client: Client) -> None:
        kafkas = {"properties": "no JSON", "registry_url": "nowhere", "sasl_mechanism": "GSSAPI"}
        entered = {**forms()["provider"], **kafkas, "kind": "jms", "shards": "99"}
        entered |= {"security_protocol": "SASL_PLAINTEXT", "username": "reader", "password": "s3"}
        answer = client.post(reverse("provider-new"), entered)
        assert answer.status_code == 303, answer.context["form"].errors
        provider = Provider.objects.get(name="main")
        assert (provider.is_jms, provider.properties, provider.registry_url) == (True, {}, "")
        assert (provider.sasl_mechanism, provider.shards, provider.password) == ("", 1, "s3")
        assert "JMS broker" in client.get(reverse("providers")).text
        page = client.get(reverse("provider", args=[provider.pk])).text
        assert "JMS broker, over AMQP 1.0" in page
        assert "<dt>Shards" not in page

    def test_a_mistake_shows_the_whole_form_again(self, client: Client) -> None:
        entered = {**forms()["provider"], "kind": "jms", "security_protocol": "SASL_SSL"}
        answer = client.post(reverse("provider-new"), entered)
        assert answer.status_code == 422
        assert set(answer.context["form"].errors) == {"username"}
        assert 'name="properties"' in answer.text

    def test_whoever_says_no_kind_means_kafka(self, client: Client) -> None:
        assert client.post(reverse("provider-new"), forms()["provider"]).status_code == 303
        assert Provider.objects.get(name="main").kind == "kafka"

    def test_it_stays_what_its_queues_take_it_for(self, client: Client) -> None:
        provider = a_jms_queue_row().provider
        address = reverse("provider-change", args=[provider.pk])
        form = a_form(client, address, kind="kafka", bootstrap_servers="127.0.0.1:2")
        assert client.post(address, form).status_code == 303
        provider.refresh_from_db()
        assert (provider.kind, provider.bootstrap_servers) == ("jms", "127.0.0.1:2")

    def test_a_secret_does_not_go_to_another_kind(self, client: Client) -> None:
        provider = a_jms_provider_row()
        provider.password = "s3cret"
        provider.save()
        address = reverse("provider-change", args=[provider.pk])
        form = a_form(client, address, kind="kafka", password=None)
        assert "password" in mistakes(client.post(address, form))

    def test_its_connection_is_tested(self, client: Client) -> None:
        provider = a_jms_provider_row()
        answer = client.post(reverse("provider-test", args=[provider.pk]))
        assert "JMS_UNREACHABLE" not in answer.text
        assert "The JMS broker artemis does not answer" in answer.text
        [section] = examined(provider).sections
        assert [one.verdict.value for one in section.findings] == ["refused"]

    def test_kafkas_clients_refuse_it(self) -> None:
        with pytest.raises(ProviderUnusableError, match="JMS broker, which has no topics"):
            connection(a_jms_provider_row())


class TestQueueForm:
    def test_a_queue_is_made_without_asking_anybody(self, client: Client) -> None:
        name, provider = a_name(), a_jms_provider_row()
        form = a_form(client, name=name, provider=provider.pk, topic="plant/orders")
        form |= {"kind": "continuous", "selector": "site = 'BEDFORD'", "subscription": "sluice"}
        queue = made(client, form | {"concurrency": "8", "group_protocol": "classic"})
        assert (queue.selector, queue.subscription) == ("site = 'BEDFORD'", "sluice")
        assert (queue.start_from, queue.concurrency, queue.group_protocol) == (
            *("beginning", 1, "none"),
        )
        [place] = queue.partitions.all()
        assert (place.partition, place.next_offset, place.lag) == (0, 0, None)
        assert (place.low_watermark, place.high_watermark) == (None, None)
        page = client.get(reverse("queue", args=[name])).text
        assert "JMS topic" in page
        assert "or nobody has looked\n" in page
        assert snapshot(queue.pk, worker="w").carrier == Queue.Carrier.ROW

    def test_a_stored_one_is_changed(self, client: Client) -> None:
        queue = a_jms_queue_row()
        address = reverse("queue-change", args=[queue.name])
        form = a_form(client, address, selector="JMSPriority > 4", description="urgent")
        assert client.post(address, form).status_code == 303
        queue.refresh_from_db()
        assert (queue.selector, queue.description) == ("JMSPriority > 4", "urgent")

    @pytest.mark.usefixtures("unanswered")
    def test_what_only_jms_has_counts_for_nothing_at_kafka(self, client: Client) -> None:
        page = client.get(reverse(NEW)).text
        assert "only-at-jms" in page
        provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
        form = a_form(client, name=a_name(), provider=provider.pk, topic="t", kind="sequential")
        answer = client.post(reverse(NEW), form | {"selector": "a = 1", "show": "effect"})
        assert not {"selector", "subscription"} & set(answer.context["form"].errors)

    def test_the_effect_says_what_is_read(self, client: Client) -> None:
        provider = a_jms_provider_row()
        form = a_form(client, name=a_name(), provider=provider.pk, topic="orders")
        form |= {"kind": "sequential", "show": "effect"}
        assert (
            "The messages of the JMS queue orders are read" in client.post(reverse(NEW), form).text
        )

    def test_outbound_leads_to_a_topic_of_kafka_alone(self, client: Client) -> None:
        Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
        system = ExternalSystem.objects.create(name="eam")
        here = {"system": system, "endpoint_type": "kafka"}
        there = {"provider": "main", "topic": "there"}
        end = Endpoint.objects.create(name="there", properties=there, **here)
        form = a_form(client, f"{reverse(NEW)}?direction=outbound", name=a_name(), topic="orders")
        form |= {"provider": a_jms_provider_row().pk, "kind": "sequential", "system": system.pk}
        assert "endpoint" in mistakes(client.post(reverse(NEW), form))
        queue = made(client, form | {"endpoint": end.pk})
        assert (queue.forwards, queue.start_from) == (True, "beginning")
        links = {link.name for link in check_flow(queue)}
        assert {"endpoint", "delivered"} < links
        assert not {"topic", "rights", "outbox"} & links
        assert client.get(reverse("queue", args=[queue.name])).status_code == 200


def test_every_page_of_a_jms_queue_and_its_provider_is_there(client: Client) -> None:
    for path in jms_pages(a_world()):
        answer = client.get(path, follow=True)
        assert answer.status_code == 200, path
        assert "4,611,686" not in answer.text


class TestRefusals:
    def test_its_position_is_not_moved(self, client: Client) -> None:
        queue = a_jms_queue_row(paused=True)
        answer = client.get(reverse("position", args=[queue.name]), follow=True)
        assert answer.redirect_chain[-1][0] == reverse("queue", args=[queue.name])
        assert "its sender has to send again" in answer.text
        request = positions.Request(actor="anna", reason="again")
        move = positions.Move(0, 3, 10, 0)
        facts = TopicFacts("uuid", {0: 0}, {0: 20})
        with pytest.raises(QueueAtJmsError):
            positions.seek(queue.pk, [move], facts=facts, request=request)
        assert queue.partitions.get().next_offset == 10

    def test_it_stops_at_no_offset(self, client: Client) -> None:
        queue = a_jms_queue_row()
        with pytest.raises(QueueAtJmsError):
            queue_stops.stop_at(queue.pk, 20, actor="anna")
        form = {"until": "drain", "reason": "now"}
        answer = client.post(reverse("stop-at", args=[queue.name]), form)
        assert answer.status_code == 409
        assert queue.partitions.get().stop_at is None

    def test_no_test_message_is_written_for_it(self, client: Client) -> None:
        queue = a_jms_queue_row()
        for answer in (
            client.get(reverse("test-message", args=[queue.name])),
            client.post(reverse("test-message", args=[queue.name]), {"payload": "{}"}),
        ):
            assert "nothing is written from here" in answer.text
        with pytest.raises(QueueAtJmsError):
            testmessages.send(queue, Draft(payload="{}"), Author("anna"))
        assert not OutboxRow.objects.exists()

    def test_no_post_is_taken_for_it_unless_kafka_has_a_queue_beside_it(self) -> None:
        partner = a_partner()
        assert partner.queue is not None
        kafka = partner.queue.provider
        Queue.objects.filter(pk=partner.queue.pk).update(provider=a_jms_provider_row())
        forget()
        refused = partner.post({"n": 1})
        problem(refused, 409, "READS_FROM_JMS")
        assert "Send the message to that broker" in refused.text
        Queue.objects.create(
            name="beside",
            topic="beside",
            provider=kafka,
            kind="continuous",
            start_from="beginning",
            system=partner.system,
        )
        forget()
        assert partner.post({"n": 1}).status_code == 202
        assert OutboxRow.objects.get().topic == "beside"

    def test_the_page_about_posts_says_so_and_shows_none(self, client: Client) -> None:
        partner = a_partner(legacy_door=True)
        assert partner.queue is not None
        address = reverse("http-api", args=[partner.system.pk])
        assert "/esqueue/" in client.get(address).text
        Queue.objects.filter(pk=partner.queue.pk).update(provider=a_jms_provider_row())
        page = client.get(address).text
        assert "READS_FROM_JMS" in page
        assert partner.queue.name in page
        assert "/esqueue/" not in page
        assert f"/es/{partner.system.name}/" in page

    def test_nothing_is_published_to_it(self) -> None:
        queue = a_jms_queue_row(direction="outbound")
        with pytest.raises(UnknownQueueError):
            target_of_queue(queue.name)
        system = ExternalSystem.objects.create(name="eam")
        target = ChannelTarget(channel=a_channel("MXPO"), system=system, queue=queue)
        with pytest.raises(ValidationError) as refused:
            target.clean()
        assert "channels write to Kafka" in refused.value.message_dict["queue"][0]

    def test_no_endpoint_forwards_to_it_and_no_failure_is_copied_to_it(self) -> None:
        system = ExternalSystem.objects.create(name="eam")
        there = {"provider": a_jms_provider_row().name, "topic": "t"}
        end = Endpoint(name="e", system=system, endpoint_type="kafka", properties=there)
        with pytest.raises(ValidationError, match="is a JMS broker"):
            end.clean()
        queue = a_jms_queue_row()
        queue.is_error_queue = True
        with pytest.raises(ValidationError) as refused:
            queue.clean()
        assert set(refused.value.message_dict) == {"is_error_queue"}

    @pytest.mark.parametrize(
        ("job", "asked"),
        [
            ("reconcile", {}),
            ("replay", {"into": "queue"}),
        ],
    )
    def test_no_bulk_job_goes_through_it(self, job: str, asked: dict[str, str]) -> None:
        queue = a_jms_queue_row("continuous")
        with pytest.raises(BulkError, match="Name a queue at Kafka") as refused:
            preview(job, {"queue": queue.name, **asked})
        assert refused.value.job_code == "QUEUE_AT_JMS"


class TestPassingOver:
    def test_no_cron_task_asks_it_as_if_it_were_kafka(self) -> None:
        queue = a_jms_queue_row(retention_seconds=60)
        # Nobody else is there to be asked.
        Provider.objects.filter(kind=Provider.Kind.KAFKA).delete()
        for task, parameters in (
            (LagMonitor(), LagParameters()),
            (Rescue(), RescueParameters()),
            (RetentionSync(), SyncParameters()),
            (DeadLetterResend(), ResendParameters()),
        ):
            outcome = run(task, parameters)
            assert outcome.state is RunState.DONE, (task, outcome)
        assert QueuePartition.objects.get(queue=queue).high_watermark is None

    def test_it_has_no_relay(self) -> None:
        provider = a_jms_provider_row()
        assert provider.pk not in {number for number, _ in shards()}
        assert provider.name not in {one.provider for one in relays()}

    def test_after_a_restore_people_are_told_what_it_does_not_keep(self) -> None:
        queue = a_jms_queue_row()
        Provider.objects.filter(kind=Provider.Kind.KAFKA).delete()
        traces = find(is_certain=True, with_silent=False)
        assert traces.findings == []
        [remark] = traces.remarks
        assert remark.startswith(f"{queue.name}: what was read from a JMS broker")

    def test_its_flow_has_no_links_of_kafka(self) -> None:
        links = {link.name: link for link in check_flow(a_jms_queue_row())}
        assert not {"topic", "rights", "rescue"} & links.keys()
        assert "JMS_UNREACHABLE" in str(links["provider"])

    def test_it_goes_on_where_it_stood_once_its_address_is_there_again(
        self, client: Client
    ) -> None:
        queue = a_jms_queue_row()
        blocked = {"state": PartitionState.BLOCKED, "state_code": "TOPIC_GONE"}
        queue.partitions.update(**blocked)
        page = client.get(reverse("queue", args=[queue.name])).text
        assert "does not know the address" in page
        assert "Continue from its start" not in page
        assert client.post(reverse("adopt-start", args=[queue.name])).status_code == 303
        place = queue.partitions.get()
        assert (place.state, place.next_offset, place.high_watermark) == ("RUNNING", 10, None)

    def test_a_head_that_is_to_be_tried_stays_the_head(self, client: Client) -> None:
        """No other message gets its offset: what waits there is first, as it was."""
        queue = a_jms_queue_row()
        blocked = {"state": PartitionState.BLOCKED, "state_code": "TOPIC_GONE"}
        queue.partitions.update(**blocked)
        head = a_held(queue, state="READY")
        assert client.post(reverse("adopt-start", args=[queue.name])).status_code == 303
        place = queue.partitions.get()
        assert (place.state, place.next_offset, place.epoch) == ("RUNNING", 10, 4)
        [stored] = MessageError.objects.filter(queue=queue)
        assert (stored.state, stored.offset) == ("READY", place.next_offset)
        assert stored.topic_uuid == head.topic_uuid == place.topic_uuid
        effects = [row.effect for row in QueueChange.objects.filter(queue=queue)]
        assert effects == ["The queue goes on at its position, 10."]
