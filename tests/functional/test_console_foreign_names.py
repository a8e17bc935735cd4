"""People who are limited to a partner read no names of others on the pages that they may see."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import Limit
from integration.models import (
    ConfigurationChange,
    Endpoint,
    EnterpriseService,
    EventSubscription,
    ExternalSystem,
    MaskingRule,
    ObjectStructure,
    Queue,
)
from integration.selectors.failures import failure
from integration.selectors.scope import Scope
from tests.support.channels import a_channel, an_outbound
from tests.support.operator_api import Program, a_program, facts
from tests.support.rows import a_held, a_queue_row, left_alone
from tests.support.set_up import limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
OTHERS = "hidden-away"


@pytest.fixture
def mine() -> ExternalSystem:
    return ExternalSystem.objects.create(name="mine")


@pytest.fixture
def theirs() -> ExternalSystem:
    return ExternalSystem.objects.create(name=OTHERS)


def program_of(system: ExternalSystem) -> Program:
    program = a_program()
    Limit.objects.create(person=program.person).systems.set([system])
    return program


def read(client: Client, page: str, *args: Any) -> str:
    answer = client.get(reverse(page, args=args))
    assert answer.status_code == 200
    return answer.text


def an_audit(kind: str, row: Any, **after: Any) -> None:
    ConfigurationChange.objects.create(
        at=timezone.now(),
        actor="adam",
        action="change",
        kind=kind,
        subject=str(row.pk),
        name=str(row),
        before=dict.fromkeys(after),
        after=after,
    )


def test_services_of_a_structure(mine: ExternalSystem, theirs: ExternalSystem) -> None:
    structure = ObjectStructure.objects.create(name="shared", key_paths=["$.a"])
    service = EnterpriseService.objects.create(interface=OTHERS, structure=structure)
    EnterpriseService.objects.create(interface="Common", structure=structure)
    a_queue_row(system=theirs, default_service=service)
    assert OTHERS in read(logged_in(), "structure", structure.pk)
    page = read(limited_to(mine), "structure", structure.pk)
    assert OTHERS not in page
    assert "Common" in page
    assert "1 service" in page
    assert "of systems that are hidden from you" in page
    uses = facts(program_of(mine).get(f"/set-up/structures/{structure.pk}"))["uses"]
    assert [use["name"] for use in uses] == ["Common", "1 service"]


def test_the_error_queue_of_a_queue(mine: ExternalSystem, theirs: ExternalSystem) -> None:
    errors = a_queue_row(name=OTHERS, system=theirs, is_error_queue=True)
    queue = a_queue_row(system=mine, error_queue=errors)
    an_audit("queue", queue, error_queue=OTHERS)
    assert read(logged_in(), "queue", queue.name).count(OTHERS) > 1
    page = read(limited_to(mine), "queue", queue.name)
    assert OTHERS not in page
    assert "a queue hidden from you" in page
    told = facts(program_of(mine).get(f"/queues/{queue.name}/set-up"))
    assert told["values"]["error_queue"] == "a queue hidden from you"
    assert told["values"]["system"] == "mine"


def test_the_error_queue_that_a_failure_waits_for(
    mine: ExternalSystem, theirs: ExternalSystem
) -> None:
    errors = a_queue_row(name=OTHERS, system=theirs, is_error_queue=True, strict_order=True)
    queue = a_queue_row("continuous", system=mine, error_queue=errors)
    now = timezone.now()
    first, second = (
        a_held(queue, offset, copied_at=now, state=state, arrival_batch=1, arrival_index=offset)
        for offset, state in ((10, "HOLD"), (11, "READY"))
    )
    assert first.pk != second.pk

    def said(scope: Scope) -> str:
        detail = failure.detail(second.pk, scope)
        assert detail is not None
        return detail.account.now

    assert f"the error queue {OTHERS} keeps strict order" in said(Scope())
    limited = said(Scope(frozenset({mine.pk})))
    assert "because the error queue keeps strict order" in limited
    assert OTHERS not in limited


@pytest.mark.parametrize("limit", ["system", "queue", "service"])
def test_limits_of_masking_rules(mine: ExternalSystem, theirs: ExternalSystem, limit: str) -> None:
    service = EnterpriseService.objects.create(interface=OTHERS)
    queue = a_queue_row(name=OTHERS, system=theirs, default_service=service)
    row = {"system": theirs, "queue": queue, "service": service}[limit]
    rule = MaskingRule.objects.create(name="rule", path="$.a", **{limit: row})
    an_audit("maskingrule", rule, **{limit: OTHERS})
    client, hidden = limited_to(mine), f"a {limit} hidden from you"
    for page, args in (("masking-rules", []), ("masking-rule", [rule.pk])):
        assert OTHERS in read(logged_in(), page, *args)
        text = read(client, page, *args)
        assert OTHERS not in text
        assert hidden in text
    assert read(client, "masking-rule", rule.pk).count(hidden) == 2, "its history, too"
    [line] = facts(program_of(mine).get("/set-up/masking-rules"))["rows"]
    assert line["values"][limit] == hidden


def test_limits_of_masking_rules_that_may_be_known(mine: ExternalSystem) -> None:
    queue = a_queue_row(name="my-queue", system=mine)
    rule = MaskingRule.objects.create(name="rule", path="$.a", system=mine, queue=queue)
    page = read(limited_to(mine), "masking-rule", rule.pk)
    assert "my-queue" in page
    assert "hidden from you" not in page


def test_systems_of_event_subscriptions(mine: ExternalSystem, theirs: ExternalSystem) -> None:
    subscribed = EventSubscription.objects.create(
        name="events", channel=a_channel("Shared"), kinds=["failure.held"], system=theirs
    )
    client = limited_to(mine)
    for page, args in (("event-subscriptions", []), ("event-subscription", [subscribed.pk])):
        assert OTHERS in read(logged_in(), page, *args)
        text = read(client, page, *args)
        assert OTHERS not in text
        assert "a system hidden from you" in text


def test_queues_of_an_endpoint(mine: ExternalSystem) -> None:
    endpoint = Endpoint.objects.create(name="post", system=mine, endpoint_type="file")
    an_outbound(OTHERS)
    an_outbound("my-out", mine)
    Queue.objects.update(endpoint=endpoint)
    assert OTHERS in read(logged_in(), "delivery-endpoint", "post")
    client = limited_to(mine)
    page = read(client, "delivery-endpoint", "post")
    assert OTHERS not in page
    assert "my-out" in page
    assert "1\n        queue hidden from you" in page
    told = facts(program_of(mine).get("/endpoints/post"))
    assert told["queues"] == ["my-out"]
    assert [use["queue"] for use in told["uses"]] == ["my-out"]


def test_operations_that_left_a_message_alone(mine: ExternalSystem, theirs: ExternalSystem) -> None:
    queue, other = a_queue_row(system=mine), a_queue_row(system=theirs)
    error = a_held(queue)
    left_alone(error, [queue.pk, other.pk], f"Release of {OTHERS}")
    assert f"Left alone by the operation “Release of {OTHERS}”" in read(
        logged_in(), "failure", error.pk
    )
    client = limited_to(mine)
    page = read(client, "failure", error.pk)
    assert OTHERS not in page
    assert "otto-of-theirs" not in page
    assert "Open the operation" not in page
    assert "Left alone by an operation that also has messages hidden from you" in page
    assert "It had moved on." in page
    left_alone(error, [queue.pk], f"Release of {OTHERS}")
    page = read(client, "failure", error.pk)
    assert f"Left alone by the operation “Release of {OTHERS}”" in page
