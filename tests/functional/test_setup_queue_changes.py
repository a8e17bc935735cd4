"""Changing, cloning and deleting queues over HTTP: what stays closed, who comes second, rights."""

from html import unescape

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import Limit
from console.setup.queues.form import FOREIGN_TOPIC
from crontasks.models import CronInstance
from devstack.server import Server
from integration import registration
from integration.actions import configuration
from integration.models import (
    ConfigurationChange,
    EnterpriseService,
    ExternalSystem,
    Provider,
    Queue,
)
from tests.functional.setup_world import NEW, a_form, a_name, made, mistakes
from tests.support.rows import a_held, a_person, a_place, a_queue_row
from tests.support.set_up import limited_to

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
WEEK = 604_800


@pytest.fixture
def provider(kafka: Server) -> Provider:
    return Provider.objects.create(name="main", bootstrap_servers=kafka.bootstrap)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Administrators", "ada"))
    return client


class TestChange:
    def test_a_change_is_one_row_of_audit_with_what_differs(self, client: Client) -> None:
        queue = a_queue_row()
        a_place(queue)
        address = reverse("queue-change", args=[queue.name])
        form = a_form(client, address, max_retries=7, retry_delay_seconds="2 min", reason="slower")
        answer = client.post(address, form)
        assert answer.status_code == 303, answer.context["form"].errors
        queue.refresh_from_db()
        assert (queue.max_retries, queue.retry_delay_seconds) == (7, 120)
        change = ConfigurationChange.objects.get()
        assert change.before == {"max_retries": 3, "retry_delay_seconds": 30}
        assert (change.action, change.reason) == ("change", "slower")
        form = a_form(client, address)
        assert client.post(address, form).status_code == 303
        assert ConfigurationChange.objects.count() == 1

    def test_what_the_position_refers_to_is_closed_and_says_why(self, client: Client) -> None:
        queue = a_queue_row()
        a_place(queue)
        address = reverse("queue-change", args=[queue.name])
        page = client.get(address)
        closed = [name for name, field in page.context["form"].fields.items() if field.disabled]
        assert sorted(closed) == ["direction", "kind", "provider", "subscription", "topic"]
        assert registration.STAYS in page.text
        form = a_form(client, address, topic="another", kind="continuous", direction="outbound")
        client.post(address, form)
        queue.refresh_from_db()
        assert (queue.kind, queue.direction) == ("sequential", "inbound")
        assert queue.topic != "another"

    def test_the_direction_of_a_stored_queue_stays(self, client: Client) -> None:
        queue = a_queue_row(direction="outbound")
        address = reverse("queue-change", args=[queue.name])
        form = a_form(client, address, direction="inbound", description="seen")
        assert client.post(address, form).status_code == 303
        queue.refresh_from_db()
        assert (queue.direction, queue.description) == ("outbound", "seen")
        assert not queue.partitions.exists()

    def test_an_open_failure_alone_closes_it_too(self, client: Client) -> None:
        queue = a_queue_row()
        assert (
            not client.get(reverse("queue-change", args=[queue.name]))
            .context["form"]
            .fields["topic"]
            .disabled
        )
        a_held(queue)
        assert (
            client.get(reverse("queue-change", args=[queue.name]))
            .context["form"]
            .fields["topic"]
            .disabled
        )

    @pytest.mark.usefixtures("unanswered")
    def test_who_comes_second_is_told_and_overwrites_nothing(self, client: Client) -> None:
        queue = a_queue_row()
        a_place(queue)
        address = reverse("queue-change", args=[queue.name])
        mine = a_form(client, address, description="mine")
        theirs = Queue.objects.get(pk=queue.pk)
        theirs.description = "theirs"
        configuration.save(theirs, configuration.Author("bob", "I was here"))
        answer = client.post(address, mine)
        assert answer.status_code == 409
        for told in ("theirs", "mine", "bob", "I was here"):
            assert told in answer.text
        assert Queue.objects.get(pk=queue.pk).description == "theirs"
        again = client.post(address, mine | {"seen": answer.context["seen"]})
        assert again.status_code == 303
        assert Queue.objects.get(pk=queue.pk).description == "mine"

    @pytest.mark.usefixtures("unanswered")
    def test_a_form_that_does_not_say_what_it_was_made_from_overwrites_nothing(
        self, client: Client
    ) -> None:
        queue = a_queue_row()
        a_place(queue)
        address = reverse("queue-change", args=[queue.name])
        form = a_form(client, address, description="mine")
        del form["seen"]
        assert client.post(address, form).status_code == 409
        assert Queue.objects.get(pk=queue.pk).description == ""

    @pytest.mark.usefixtures("unanswered")
    def test_a_start_that_no_calendar_has_is_a_mistake_of_its_field(self, client: Client) -> None:
        provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
        form = a_form(client, name=a_name(), provider=provider.pk, topic="t", topic_from="adopt")
        for moment in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"):
            asked = form | {"start_from": "time", "start_time": moment}
            assert "in UTC" in mistakes(client.post(reverse(NEW), asked))["start_time"][0]
        assert not Queue.objects.exists()

    @pytest.mark.usefixtures("unanswered")
    def test_a_broker_that_is_down_hinders_only_what_it_has_a_say_in(self, client: Client) -> None:
        queue = a_queue_row()
        a_place(queue)
        address = reverse("queue-change", args=[queue.name])
        assert client.post(address, a_form(client, address, batch_size=77)).status_code == 303
        form = a_form(client, address, retention_seconds="5 s")
        assert "does not answer" in mistakes(client.post(address, form))["provider"][0]
        queue.refresh_from_db()
        assert (queue.batch_size, queue.retention_seconds) == (77, WEEK)


class TestClone:
    def test_a_copy_has_everything_but_name_topic_and_start(
        self, client: Client, provider: Provider
    ) -> None:
        service = EnterpriseService.objects.create(interface="ORDERS")
        source = a_queue_row(
            "continuous", default_service=service, max_retries=9, paused=True, enabled=False
        )
        form = a_form(client, f"{reverse(NEW)}?like={source.name}")
        assert {"name", "topic", "start_from"}.isdisjoint(form)
        name = a_name()
        copy = made(client, form | {"name": name, "topic": name, "provider": provider.pk})
        assert (copy.max_retries, copy.default_service, copy.kind) == (9, service, "continuous")
        assert (copy.enabled, copy.paused) == (True, False)


class TestRights:
    def test_only_those_who_may_configure_come_here(self) -> None:
        queue = a_queue_row()
        addresses = [reverse(NEW), reverse("queue-new-effects")]
        addresses += [
            reverse(name, args=[queue.name])
            for name in ("queue-change", "queue-effects", "queue-delete")
        ]
        for role in ("", "Viewers", "Operators", "Editors"):
            client = Client()
            client.force_login(a_person(role))
            for address in addresses:
                assert client.get(address).status_code == 403
                assert client.post(address, {"name": "x"}).status_code == 403
        assert Queue.objects.count() == 1
        assert not ConfigurationChange.objects.exists()

    def test_limited_people_know_and_make_queues_of_their_partners_only(
        self, provider: Provider
    ) -> None:
        mine, other = (ExternalSystem.objects.create(name=name) for name in ("mine", "other"))
        theirs = a_queue_row(system=other)
        person = a_person("Administrators")
        Limit.objects.create(person=person).systems.add(mine)
        client = Client()
        client.force_login(person)
        for page in ("queue-change", "queue-delete", "queue-effects"):
            address = reverse(page, args=[theirs.name])
            assert client.get(address).status_code in {404, 303}
            assert client.post(address, {"name": theirs.name}).status_code == 404
        assert client.get(f"{reverse(NEW)}?like={theirs.name}").context["form"].instance.kind == ""
        name = a_name()
        form = a_form(client, name=name, provider=provider.pk, topic=name, kind="sequential")
        assert "system" in mistakes(client.post(reverse(NEW), form))
        assert "system" in mistakes(client.post(reverse(NEW), form | {"system": other.pk}))
        assert made(client, form | {"system": mine.pk}).system == mine


class TestDelete:
    def test_a_queue_that_is_needed_is_kept_with_the_reasons(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        feeding = a_queue_row(error_queue=queue)
        a_place(queue)
        a_held(queue)
        address = reverse("queue-delete", args=[queue.name])
        page = client.get(address).text
        for reason in ("switched on", "open failures", f"error queue of {feeding.name}"):
            assert reason in page
        answer = client.post(address, {"name": queue.name, "reason": "gone"})
        assert answer.status_code == 409
        assert Queue.objects.filter(pk=queue.pk).exists()

    def test_the_name_is_typed_and_a_reason_given(self, client: Client) -> None:
        queue = a_queue_row(enabled=False)
        address = reverse("queue-delete", args=[queue.name])
        assert client.post(address, {"name": "x", "reason": "gone"}).status_code == 422
        assert client.post(address, {"name": queue.name}).status_code == 422
        assert Queue.objects.filter(pk=queue.pk).exists()

    def test_what_goes_is_told_and_goes_and_the_audit_stays(self, client: Client) -> None:
        queue = a_queue_row(enabled=False)
        a_place(queue)
        a_held(queue, state="RESOLVED", closed_at=timezone.now())
        address = reverse("queue-delete", args=[queue.name])
        page = client.get(address).text
        for told in ("partition 0 at 10", "5 messages wait unread", "1 closed failure with"):
            assert told in page
        answer = client.post(address, {"name": queue.name, "reason": "the partner left"})
        assert answer.status_code == 303
        assert not Queue.objects.filter(pk=queue.pk).exists()
        assert not CronInstance.objects.filter(queue=queue.pk).exists()
        change = ConfigurationChange.objects.get()
        assert (change.action, change.name, change.after) == ("delete", queue.name, None)
        assert change.reason == "the partner left"


@pytest.mark.usefixtures("unanswered")
@pytest.mark.parametrize("is_limited", [True, False])
def test_a_limited_person_writes_to_no_topic_of_somebody_else(*, is_limited: bool) -> None:
    mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("mine", "theirs"))
    foreign = a_queue_row(system=theirs)
    own = a_queue_row(system=mine, direction="outbound", start_from="end")
    person = a_person("Administrators")
    if is_limited:
        Limit.objects.create(person=person).systems.add(mine)
    client = Client()
    client.force_login(person)
    address = reverse("queue-change", args=[own.name])
    form = a_form(client, address, topic=foreign.topic, show="1")
    told = "may not use this topic" in client.post(address, form).text
    assert told is is_limited


@pytest.mark.usefixtures("unanswered")
@pytest.mark.parametrize(
    ("topic", "is_shown"), [("mine.orders", True), ("minerals", False), ("orders", False)]
)
def test_of_a_topic_without_a_queue_only_the_name_tells_whose_it_is(
    topic: str, *, is_shown: bool
) -> None:
    mine = ExternalSystem.objects.create(name="mine")
    provider = a_queue_row(system=mine).provider
    sent = {"name": "new-one", "system": mine.pk, "provider": provider.pk, "topic": topic}
    sent |= {"topic_from": "adopt", "kind": "continuous", "start_from": "end", "show": "1"}
    refused = limited_to(mine).post(reverse("queue-new"), sent).text
    assert (FOREIGN_TOPIC in unescape(refused)) is not is_shown
    effects = limited_to(mine).post(f"{reverse('queue-new-effects')}?part=topic", sent).text
    assert (FOREIGN_TOPIC in unescape(effects)) is not is_shown


@pytest.mark.parametrize("topic", ["__consumer_offsets", "sluice-relay"])
def test_internal_topics_are_nobodys_messages(topic: str) -> None:
    queue = a_queue_row(topic=topic)
    with pytest.raises(ValidationError) as mistakes:
        registration.check(queue)
    assert set(mistakes.value.message_dict) == {"topic"}
