"""A new partner step by step over HTTP: resumable, nothing half-made, every step one real thing."""

import html
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import Limit
from devstack.server import Server
from integration.kafka import admin
from integration.models import (
    ConfigurationChange,
    EnterpriseService,
    ExternalSystem,
    MessageTrack,
    ObjectStructure,
    OutboxRow,
    Provider,
    Queue,
)
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
FOLD_OPEN = '<details class="card mb-3" data-stays open>'


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Administrators", "ada"))
    return client


def step(name: str, **known: Any) -> str:
    query = "&".join(f"{key}={value}" for key, value in known.items())
    return f"{reverse('partner-step', args=[name])}?{query}"


def went_on(answer: HttpResponse) -> str:
    assert answer.status_code == 303, answer.context["form"].errors
    return str(answer["Location"])


def known_in(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def shown(client: Client, address: str) -> dict[str, Any]:
    """The fields of the step's form as a browser would send them."""
    form = client.get(address).context["form"]
    values = {bound.name: bound.value() for bound in form}
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != ""
    }


def partner_made(client: Client, kafka: Server) -> str:
    """The first three steps; the address of the fourth."""
    at = reverse("partner-new")
    provider = shown(client, at) | {"name": "main", "bootstrap_servers": kafka.bootstrap}
    at = went_on(client.post(step("provider"), provider))
    assert "Test connection" in client.get(at).text
    tested = client.post(at, {"test": "1"}).text
    assert "Something is missing" not in tested
    assert "main" in tested
    at = step("system", **known_in(at))
    at = went_on(client.post(at, shown(client, at) | {"name": "erp"}))
    at = went_on(client.post(at, shown(client, at) | {"interface": "OBEY"}))
    assert "tests.support.world.handlers" in client.get(at).text
    return step("queue", **known_in(at))


def test_from_nothing_to_a_message_that_was_applied(client: Client, kafka: Server) -> None:
    at = partner_made(client, kafka)
    form = shown(client, at)
    assert (form["name"], form["topic"]) == ("erp-obey", "erp.obey")
    topic = f"partner-{uuid.uuid4().hex[:8]}"
    at = went_on(client.post(at, form | {"kind": "sequential", "topic": topic}))
    queue = Queue.objects.get()
    assert (queue.system.name, queue.default_service.interface) == ("erp", "OBEY")
    assert queue.partitions.count() == 1
    assert topic in admin.topics(queue.provider)
    at = went_on(client.post(at, shown(client, at) | {"payload": "{}"}))
    waiting = client.get(at).text
    assert "On its way" in waiting
    assert f'href="{at}"' in html.unescape(waiting), "without scripts it is asked again by hand"
    row = OutboxRow.objects.get()
    OutboxRow.objects.update(state="PUBLISHED", published_at=timezone.now())
    MessageTrack.objects.create(
        queue=queue,
        partition=0,
        offset=0,
        arrival_batch=1,
        message_id=row.message_id,
        interface="OBEY",
        ended="APPLIED",
    )
    end = client.get(at)
    assert end.context["journey"].works
    assert reverse("queue", args=[queue.name]) in end.text
    kinds = list(ConfigurationChange.objects.order_by("pk").values_list("kind", flat=True))
    assert kinds[:3] == ["provider", "externalsystem", "enterpriseservice"]
    assert kinds[3:] == ["queue", "testmessage"]


class TestResuming:
    def test_everything_chosen_so_far_stands_in_the_address(self, client: Client) -> None:
        provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
        system = ExternalSystem.objects.create(name="erp")
        page = client.get(step("service", provider=provider.pk, system=system.pk))
        stepper = page.context["stepper"]
        assert [made for _, _, made, _ in stepper] == ["main", "erp", "", "", ""]
        assert [is_current for *_, is_current in stepper] == [False, False, True, False, False]
        for _, address, _, _ in stepper:
            assert known_in(address) == {
                "provider": str(provider.pk),
                "system": str(system.pk),
            }
            assert client.get(address).status_code == 200

    def test_what_is_there_can_be_chosen(self, client: Client) -> None:
        queue = a_queue_row(system=ExternalSystem.objects.create(name="erp"))
        page = client.get(step("queue", system=queue.system_id))
        assert dict(page.context["offered"])[queue] == step(
            "message", system=queue.system_id, queue=queue.name
        )

    def test_numbers_that_lead_nowhere_are_left_out(self, client: Client) -> None:
        page = client.get(step("system", provider=999, service="x", queue="gone"))
        assert page.status_code == 200
        assert not any(made for _, _, made, _ in page.context["stepper"])

    def test_the_last_step_says_that_it_needs_a_queue(self, client: Client) -> None:
        assert "A test message needs a queue" in client.get(step("message")).text

    def test_there_is_no_sixth_step(self, client: Client) -> None:
        assert client.get(reverse("partner-step", args=["party"])).status_code == 404


class TestWhatIsAsked:
    def test_a_new_partner_is_a_new_system_so_its_form_is_open(self, client: Client) -> None:
        other = ExternalSystem.objects.create(name="other")
        assert FOLD_OPEN in client.get(step("system")).text
        assert FOLD_OPEN not in client.get(step("system", system=other.pk)).text

    def test_the_queue_asks_for_little_and_folds_the_rest(self, client: Client) -> None:
        provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
        page = client.get(step("queue", provider=provider.pk)).text
        asked, fold, rest = page.partition("More settings")
        for name in ("name", "system", "default_service", "topic", "kind", "start_from"):
            assert f'name="{name}"' in asked
        assert asked.rstrip().endswith("<summary>"), "closed"
        for name in ("provider", "partitions", "max_retries", "error_queue", "batch_size"):
            assert f'name="{name}"' in rest
            assert f'name="{name}"' not in asked
        assert fold
        full = client.get(reverse("queue-new")).context["form"].fields
        for name in full:
            assert f'name="{name}"' in page, "what the full form asks is sent from here too"

    def test_a_provider_that_nobody_chose_is_asked_for(self, client: Client) -> None:
        asked, _, _ = client.get(step("queue")).text.partition("More settings")
        assert 'name="provider"' in asked

    def test_a_mistake_in_the_fold_opens_it(self, client: Client) -> None:
        form = shown(client, step("queue")) | {"kind": "sequential", "max_retries": "-1"}
        page = client.post(step("queue"), form).text
        before, _, _ = page.partition("<summary>More settings")
        assert before.endswith("open>")


class TestTakers:
    def test_a_service_nobody_takes_is_told_and_gets_a_structure(self, client: Client) -> None:
        form = {"interface": "TREES", "enabled": "on"}
        at = went_on(client.post(step("service"), form))
        page = client.get(at).text
        assert "neither a structure nor an installed handler" in page
        assert "Make a structure for it" in page
        service = EnterpriseService.objects.get()
        assert reverse("service-change", args=[service.pk]) in page
        at = step("structure", **known_in(at))
        sample = {"key_paths": "$.id", "sample": '{"id": "T-1"}', "tombstone": "hold"}
        tried = client.post(at, sample | {"try": "1"})
        assert tried.status_code == 200
        assert "T-1" in tried.text
        assert not ObjectStructure.objects.exists()
        at = went_on(client.post(at, sample | {"name": "trees"}))
        assert "Store its messages into trees" in client.get(at).text
        assert client.post(at, {"store_into": "1"}).status_code == 303
        assert EnterpriseService.objects.get().structure.name == "trees"

    def test_a_structure_made_before_is_chosen_in_the_new_service(self, client: Client) -> None:
        structure = ObjectStructure.objects.create(name="trees", key_paths=["$.id"])
        page = client.get(step("service", structure=structure.pk))
        assert page.context["form"]["structure"].value() == structure.pk


@pytest.mark.parametrize(
    ("name", "form", "field"),
    [
        ("provider", {"name": "a b", "bootstrap_servers": "x:1"}, "name"),
        ("system", {"name": ""}, "name"),
        ("service", {"interface": ""}, "interface"),
        ("queue", {"name": "x"}, "kind"),
    ],
)
def test_a_mistake_is_told_beside_its_field_and_nothing_is_made(
    client: Client, name: str, form: dict[str, str], field: str
) -> None:
    answer = client.post(step(name), form)
    assert answer.status_code == 422
    assert field in answer.context["form"].errors
    assert "invalid-feedback" in answer.text
    assert not ConfigurationChange.objects.exists()


class TestRights:
    @pytest.mark.parametrize("role", ["", "Viewers", "Operators", "Editors"])
    def test_only_those_who_may_configure_come_here(self, role: str) -> None:
        client = Client()
        client.force_login(a_person(role))
        for name in ("provider", "system", "service", "structure", "queue", "message"):
            assert client.get(step(name)).status_code == 403
            assert client.post(step(name), {"name": "x"}).status_code == 403
        assert "New partner" not in client.get("/").text

    def test_limited_people_choose_what_is_shared_and_make_no_systems(self) -> None:
        mine, other = (ExternalSystem.objects.create(name=name) for name in ("mine", "other"))
        person = a_person("Administrators")
        Limit.objects.create(person=person).systems.add(mine)
        client = Client()
        client.force_login(person)
        page = client.get(step("system", system=other.pk))
        assert [row for row, _ in page.context["offered"]] == [mine]
        assert page.context["stepper"][1][2] == ""
        for name in ("provider", "system", "service"):
            assert client.post(step(name), {"name": "x", "interface": "x"}).status_code == 403
        assert ExternalSystem.objects.count() == 2
