"""What rules reach is taken from them by who may reveal: forms, files and the wizard ask for it."""

import json
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from devstack.server import Server
from integration.kafka import admin
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    MaskingRule,
    ObjectStructure,
    OutboxRow,
    Provider,
    PublishChannel,
    Queue,
)
from integration.selectors.masking.limits import removal_unmasks, step_unmasks, storing_unmasks
from tests.functional.setup_world import a_form, a_name
from tests.functional.test_masking import DOCUMENT, SECRET, a_failure, a_rule, page_of
from tests.functional.test_masking_planted import person_without, somebody
from tests.support.http_api import problem
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_place, a_queue_row
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def test_a_row_leaves_a_rule_s_reach_by_who_may_reveal() -> None:
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    queue = a_queue_row(system=ExternalSystem.objects.create(name="EAM"))
    service.structure, queue.system = None, None
    assert not storing_unmasks(service)
    a_rule(structure=structure)
    assert storing_unmasks(service)
    assert not storing_unmasks(queue)
    a_rule(system=ExternalSystem.objects.get())
    assert storing_unmasks(queue)
    MaskingRule.objects.update(enabled=False)
    assert not storing_unmasks(service)


def test_forms_and_files_ask_for_the_right() -> None:
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    a_rule(structure=structure)
    client = somebody(Right.REVEAL)
    address = reverse("service-change", args=[service.pk])
    form = client.get(address).context["form"]
    said = {name: form[name].value() for name in form.fields}
    said = {name: value for name, value in said.items() if value not in {None, False}}
    answer = client.post(address, {**said, "structure": ""})
    assert answer.status_code == 403, answer.text
    service.refresh_from_db()
    assert service.structure == structure
    word = str(EnterpriseService._meta.verbose_name)
    assert step_unmasks("change", word, "ORDERS", {"structure": "order"}, {})
    assert not step_unmasks("change", word, "ORDERS", {"enabled": True}, {})


def test_nor_is_a_name_taken_that_messages_may_have() -> None:
    """While nobody knows their service, every rule for a service hides what they hold.

    So it is with failures, with tracked messages, and with those in the outbox.
    """
    new = EnterpriseService(interface="ORDERS")
    word = str(EnterpriseService._meta.verbose_name)
    assert not storing_unmasks(new)
    assert not step_unmasks("create", word, "ORDERS", {}, {})
    a_rule(service=EnterpriseService.objects.create(interface="OTHER"))
    assert storing_unmasks(new)
    assert step_unmasks("create", word, "ORDERS", {}, {})
    assert storing_unmasks(PublishChannel(name="ORDERS"))
    renamed = EnterpriseService.objects.create(interface="HARMLESS")
    renamed.interface = "ORDERS"
    assert storing_unmasks(renamed)
    renamed.interface = "HARMLESS"
    assert not storing_unmasks(renamed)
    assert not storing_unmasks(PublishChannel(name="HARMLESS")), "its messages are known"
    assert not step_unmasks("create", str(ObjectStructure._meta.verbose_name), "ORDERS", {}, {})


@pytest.mark.parametrize("limit", ["structure", "service"])
def test_a_name_is_given_up_by_who_may_reveal(limit: str) -> None:
    """Under the old name another row, which no rule is for, would show what is hidden."""
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    word = str(EnterpriseService._meta.verbose_name)
    service.interface = "RENAMED"
    assert not storing_unmasks(service)
    assert not step_unmasks("remove", word, "ORDERS", {}, {})
    a_rule(**{limit: {"structure": structure, "service": service}[limit]})
    assert storing_unmasks(service)
    assert step_unmasks("remove", word, "ORDERS", {}, {})
    assert not step_unmasks("create", word, "ORDERS", {}, {})
    address, client = reverse("service-delete", args=[service.pk]), somebody(Right.REVEAL)
    said = {"reason": "to add it again", "name": "ORDERS"}
    assert client.post(address, said).status_code == 403
    assert EnterpriseService.objects.filter(interface="ORDERS").exists()


def test_the_wizard_gives_a_structure_to_a_service_that_has_none() -> None:
    one, other = (
        ObjectStructure.objects.create(name=name, key_paths=["$.order"])
        for name in ("one", "other")
    )
    service = EnterpriseService.objects.create(interface="ORDERS", structure=one)
    a_rule(structure=one)
    error, client = a_failure(), somebody(Right.REVEAL)
    address = reverse("partner-step", args=["service"])
    chosen = f"{address}?service={service.pk}&structure={other.pk}"
    assert client.post(chosen, {"store_into": "1"}).status_code == 303
    service.refresh_from_db()
    assert service.structure == one
    assert SECRET not in page_of(client, error)
    # Nor does a person who may reveal change it by a button that says nothing of it.
    assert (
        "is stored into one already"
        in somebody().post(chosen, {"store_into": "1"}, follow=True).text
    )
    service.refresh_from_db()
    assert service.structure == one


QUEUE = str(Queue._meta.verbose_name)
LIMITS = ["system", "queue"]
PATHS: dict[str, Any] = {"external_id_path": "$.card", "search_paths": ["$.id", "$.card"]}


def limited_to(limit: str) -> MaskingRule:
    """A rule for a partner's messages, or for a queue's, which is not the one of the test."""
    if limit == "queue":
        return a_rule(queue=a_queue_row())
    return a_rule(system=ExternalSystem.objects.create(name="partner"))


@pytest.mark.parametrize("limit", LIMITS)
def test_queues_decide_which_messages_a_limited_rule_is_for(limit: str) -> None:
    queue, new = a_queue_row(), Queue(name="new", topic="a.topic")
    a_rule()
    assert not storing_unmasks(new), "a rule for all messages"
    assert not step_unmasks("create", QUEUE, "new", {}, {})
    assert not removal_unmasks(queue)
    rule = limited_to(limit)
    assert storing_unmasks(new)
    assert step_unmasks("create", QUEUE, "new", {}, {})
    assert removal_unmasks(queue)
    assert step_unmasks("remove", QUEUE, queue.name, {}, {})
    assert not storing_unmasks(queue)
    rule.enabled = False
    rule.save()
    assert not storing_unmasks(new)
    assert not removal_unmasks(queue)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", "another.topic"),
        ("subscription", "another"),
        ("selector", "region = 'north'"),
        ("direction", "outbound"),
        ("provider_id", 0),
    ],
)
def test_a_queue_reads_other_messages_by_who_may_reveal(field: str, value: Any) -> None:
    queue = a_queue_row()
    setattr(queue, field, value)
    before = {field.removesuffix("_id"): "before"}
    assert not storing_unmasks(queue)
    assert not step_unmasks("change", QUEUE, queue.name, before, {})
    limited_to("system")
    assert storing_unmasks(queue)
    assert step_unmasks("change", QUEUE, queue.name, before, {})
    queue.refresh_from_db()
    queue.batch_size = 7
    assert not storing_unmasks(queue)
    assert not step_unmasks("change", QUEUE, queue.name, {"batch_size": 500}, {})


@pytest.mark.parametrize("model", [EnterpriseService, PublishChannel])
@pytest.mark.parametrize(
    ("field", "value"), [("external_id_path", "$.order"), ("search_paths", ["$.order"])]
)
def test_paths_of_hidden_ids_are_changed_by_who_may_reveal(
    model: type[EnterpriseService | PublishChannel], field: str, value: Any
) -> None:
    """Tracking keeps ids and no paths: which of them are hidden is told by those of today."""
    name = "interface" if model is EnterpriseService else "name"
    row = model.objects.create(**{name: "ORDERS", field: PATHS[field]})
    word = str(model._meta.verbose_name)
    setattr(row, field, value)
    harmless = a_rule("$.name")
    assert not storing_unmasks(row), "no rule hides these"
    assert not step_unmasks("change", word, "ORDERS", {field: PATHS[field]}, {})
    assert not removal_unmasks(row)
    harmless.path = "$.card"
    harmless.save()
    assert storing_unmasks(row)
    assert step_unmasks("change", word, "ORDERS", {field: PATHS[field]}, {})
    row.refresh_from_db()
    assert not storing_unmasks(row)
    assert removal_unmasks(row), "another of its name would have other paths"
    assert step_unmasks("remove", word, "ORDERS", {}, {})
    setattr(row, name, "RENAMED")
    assert storing_unmasks(row)


def test_ids_are_still_hidden_after_each_way_to_change_paths() -> None:
    service = EnterpriseService.objects.create(interface="ORDERS", external_id_path="$.card")
    row = a_track_row(a_queue_row("continuous"), interface="ORDERS", external_id=SECRET)
    a_rule()
    person, client = person_without(Right.REVEAL), somebody(Right.REVEAL)
    program, head = a_program(person=person), "format: 1\nservices:\n- interface: ORDERS\n"
    other = f"{head}  external_id_path: $.order\n"
    problem(program.put("/configuration", other.encode()), 403, "RIGHT_MISSING")
    address = reverse("service-change", args=[service.pk])
    form = a_form(client, address, external_id_path="$.order")
    assert client.post(address, form).status_code == 403
    # The wizard only adds services, and this name is taken.
    address = reverse("partner-step", args=["service"])
    form = {"interface": "ORDERS", "external_id_path": "$.order", "enabled": "on"}
    assert client.post(address, form).status_code == 422
    page = client.get(reverse("tracked-message"), {"id": row.message_id}).text
    assert row.message_id in page
    assert SECRET not in page
    same = f"{head}  external_id_path: $.card\n  description: of the plant\n"
    assert facts(program.put("/configuration", same.encode()))["steps"]


def test_no_queue_beside_a_topic_shows_what_waits_for_it() -> None:
    partner = ExternalSystem.objects.create(name="partner")
    queue = a_queue_row("continuous", direction="outbound", system=partner)
    a_rule(system=partner)
    row = OutboxRow.objects.create(
        created_at=timezone.now(),
        provider=queue.provider,
        topic=queue.topic,
        message_id="m1",
        kind="MESSAGE",
        state="DEAD",
        value=json.dumps(DOCUMENT).encode(),
        headers=[],
    )
    client = somebody(Right.REVEAL)
    program = a_program(person=person_without(Right.REVEAL))
    head = f"format: 1\nqueues:\n- name: {queue.name}\n  topic: "
    said = program.put("/configuration", f"{head}elsewhere\n".encode())
    problem(said, 403, "RIGHT_MISSING")
    assert facts(program.put("/configuration", f"{head}{queue.topic}\n  batch_size: 7\n".encode()))
    beside = f"- name: beside\n  provider: {queue.provider}\n  topic: {queue.topic}\n"
    file = f"format: 1\nqueues:\n{beside}  direction: inbound\n  kind: continuous\n"
    problem(
        program.put("/configuration", f"{file}  start_from: end\n".encode()), 403, "RIGHT_MISSING"
    )
    assert SECRET not in client.get(reverse("outbox-row", args=[row.pk])).text
    assert Queue.objects.count() == 1


@pytest.fixture
def provider(kafka: Server) -> Provider:
    return Provider.objects.create(name="main", bootstrap_servers=kafka.bootstrap)


def test_pages_of_queues_ask_for_the_right(provider: Provider) -> None:
    queue, client = a_queue_row(enabled=False), somebody(Right.REVEAL)
    name = a_name()
    form = a_form(client, name=name, provider=provider.pk, topic=name, kind="sequential")
    limited_to("system")
    for address in (reverse("queue-new"), reverse("partner-step", args=["queue"])):
        answer = client.post(address, form)
        assert answer.status_code == 403, answer.context["form"].errors
        assert Right.REVEAL.missing in answer.text
    assert name not in admin.topics(provider)
    address = reverse("queue-delete", args=[queue.name])
    answer = client.post(address, {"name": queue.name, "reason": "not needed"})
    assert answer.status_code == 403
    assert Right.REVEAL.missing in answer.text
    assert list(Queue.objects.all()) == [queue]
    answer = somebody().post(address, {"name": queue.name, "reason": "not needed"})
    assert answer.status_code == 303


def test_an_error_queue_made_along_with_a_change_is_a_new_queue(provider: Provider) -> None:
    queue, client = a_queue_row(provider=provider), somebody(Right.REVEAL)
    a_place(queue)
    a_rule(queue=queue)
    address = reverse("queue-change", args=[queue.name])
    form = a_form(client, address, batch_size=7)
    answer = client.post(address, form | {"create_error_queue": "on"})
    assert answer.status_code == 403, answer.context["form"].errors
    assert not Queue.objects.filter(is_error_queue=True).exists()
    assert client.post(address, form).status_code == 303


def test_a_cron_task_makes_queues_by_who_may_reveal() -> None:
    program = a_program(person=person_without(Right.REVEAL))

    def stored(name: str, **parameters: Any) -> Any:
        head = f"format: 1\ncron_instances:\n- name: {name}\n  task: dead_letters\n"
        file = f"{head}  interval_seconds: 3600\n  parameters: {json.dumps(parameters)}\n"
        return program.put("/configuration", file.encode())

    assert facts(stored("before", pattern="partner"))["steps"]
    limited_to("system")
    problem(stored("after", pattern="partner"), 403, "RIGHT_MISSING")
    problem(stored("before", pattern="partner.*"), 403, "RIGHT_MISSING")
    assert facts(stored("after", pattern="partner", most_queues=0))["steps"]
