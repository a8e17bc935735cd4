"""What a released message waits for, said wherever people release one or look at it."""

from collections.abc import Callable
from datetime import timedelta
from html import unescape
from uuid import UUID

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import Limit
from crontasks.health.released import waits_for
from crontasks.models import CronInstance, Heartbeat
from integration.models import (
    Endpoint,
    EndpointCircuit,
    ExternalSystem,
    MessageError,
    Queue,
    QueuePartition,
)
from integration.selectors.queues.status import NO_WORKER
from tests.support.operations import plan, run, started
from tests.support.rows import a_held, a_person, a_place, a_queue_row, some_live_processes

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
Break = Callable[[Queue], object]
SOON = "within seconds"


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def a_failure(kind: str = "continuous", **fields: object) -> MessageError:
    """A message on hold, and everything alive that would try it once it is released."""
    some_live_processes()
    system = ExternalSystem.objects.create(name="acme")
    queue = a_queue_row(kind, system=system, **fields)
    a_place(queue)
    return a_held(queue)


def an_outgoing_failure() -> MessageError:
    system = ExternalSystem.objects.create(name="partner")
    endpoint = Endpoint.objects.create(name="post", system=system, endpoint_type="file")
    return a_failure(direction="outbound", endpoint=endpoint)


def at_place(**fields: object) -> Break:
    return lambda queue: QueuePartition.objects.filter(queue=queue).update(**fields)


def switched(**fields: object) -> Break:
    return lambda queue: Queue.objects.filter(pk=queue.pk).update(**fields)


def system_off(queue: Queue) -> None:
    ExternalSystem.objects.filter(pk=queue.system_id).update(enabled=False)


def endpoint_down(queue: Queue) -> None:
    resume = timezone.now() + timedelta(seconds=40)
    EndpointCircuit.objects.create(
        endpoint=queue.endpoint, state="OPEN", opened_at=timezone.now(), resume_at=resume
    )


def nobody(_queue: Queue) -> None:
    Heartbeat.objects.filter(kind="worker").delete()


def fresh(error: MessageError) -> Queue:
    return Queue.objects.select_related("system", "provider").get(pk=error.queue_id)


INBOUND: dict[str, tuple[Break, str, str]] = {
    "paused": (switched(paused=True, pause_reason="moving"), "paused: moving.", "Resume"),
    "off": (switched(enabled=False), "queue is switched off", "Switch the queue on"),
    "no worker": (nobody, "No worker for queues", "Start one"),
    "no schedule": (
        lambda queue: CronInstance.objects.filter(queue=queue).update(active=False),
        "is not active",
        "Activate the instance",
    ),
    "provider out": (
        at_place(state="OUTAGE", state_code="KAFKA_UNAVAILABLE"),
        "No broker of the provider answers",
        "Bring the brokers back",
    ),
}


@pytest.mark.parametrize("what", INBOUND)
def test_the_failures_page_and_the_answer_say_what_a_released_message_waits_for(
    client: Client, what: str
) -> None:
    stop, why, step = INBOUND[what]
    error = a_failure()
    stop(error.queue)
    answer = client.post(reverse("release", args=[error.pk]), {"version": 1}, follow=True)
    page = unescape(answer.text)
    [told] = [str(said) for said in answer.context["messages"]]
    assert (why in told, step in told, SOON in page) == (True, True, False)
    assert page.count(why) == 2, "in the answer, and as what to do now"


def test_an_edit_that_releases_says_it_too(client: Client) -> None:
    error = a_failure()
    switched(paused=True)(error.queue)
    values = {"version": 1, "text": '{"assetnum": "P-2"}', "then": "release"}
    page = client.post(reverse("edit", args=[error.pk]), values, follow=True).text
    assert ("The queue is paused." in page, SOON in page) == (True, False)


def test_where_nothing_stands_in_the_way_it_is_tried_within_seconds(client: Client) -> None:
    error = a_failure()
    answer = client.post(reverse("release", args=[error.pk]), {"version": 1}, follow=True)
    assert answer.text.count(SOON) == 2


def test_one_that_waits_for_a_message_of_a_hidden_system_is_not_said_to_be_tried() -> None:
    error, now = a_failure(), timezone.now()
    strict = a_queue_row(name="plant-errors", is_error_queue=True, strict_order=True)
    theirs = a_queue_row("continuous", system=ExternalSystem.objects.create(name="theirs"))
    Queue.objects.filter(pk__in=[error.queue_id, theirs.pk]).update(error_queue=strict)
    first = a_held(theirs, copied_at=now)
    MessageError.objects.filter(pk=error.pk).update(copied_at=now + timedelta(seconds=1))
    person = a_person("Editors", "lena")
    Limit.objects.create(person=person).systems.add(error.queue.system)
    limited = Client()
    limited.force_login(person)
    answer = limited.post(reverse("release", args=[error.pk]), {"version": 1}, follow=True)
    page = unescape(answer.text)
    assert page.count("It waits behind a message that you may not see") == 2
    assert "will be tried within seconds" not in page
    for hidden in (strict.name, theirs.name, str(first.pk)):
        assert hidden not in page


def test_one_that_the_position_went_back_over_waits_for_it(client: Client) -> None:
    error = a_failure()
    QueuePartition.objects.filter(queue=error.queue_id).update(
        next_offset=error.offset - 2, moved_at=Now()
    )
    answer = client.post(reverse("release", args=[error.pk]), {"version": 1}, follow=True)
    page = unescape(answer.text)
    assert page.count("It is tried by itself once the queue has come past it") == 2
    assert SOON not in page


@pytest.mark.parametrize("stop", [endpoint_down, system_off])
def test_a_message_to_an_endpoint_that_takes_none_waits_for_that(stop: Break) -> None:
    error = an_outgoing_failure()
    assert waits_for(fresh(error)) is None
    stop(fresh(error))
    found = waits_for(fresh(error))
    assert found is not None
    assert found.name == ("endpoint" if stop is endpoint_down else "system")


# What the engine tries a released message through: the head that blocks, too many failures, a
# retry of another message, a transaction that keeps only Kafka's records back.
THROUGH = {
    "head": ("sequential", {"state": "BLOCKED", "state_code": "HEAD_HELD"}),
    "stopped": ("continuous", {"state": "BRAKED", "state_code": "TOO_MANY_OPEN_ERRORS"}),
    "gap": ("continuous", {"state": "BLOCKED", "state_code": "GAP"}),
    "retry": ("sequential", {"state": "BACKOFF", "state_code": "RETRY_WAIT", "resume_at": Now()}),
    "transaction": ("continuous", {"state_code": "TRANSACTION_HANGS", "next_offset": 15}),
}


@pytest.mark.parametrize("what", THROUGH)
def test_what_a_released_message_passes_is_nothing_that_it_waits_for(what: str) -> None:
    kind, fields = THROUGH[what]
    error = a_failure(kind)
    at_place(**fields)(error.queue)
    assert waits_for(fresh(error)) is None


@pytest.mark.parametrize("code", ["TOPIC_RECREATED", "GAP"])
def test_the_head_of_a_topic_that_a_person_has_to_adopt_waits_for_that(code: str) -> None:
    error = a_failure("sequential")
    at_place(state="BLOCKED", state_code=code)(error.queue)
    found = waits_for(fresh(error))
    assert found is not None
    assert (found.name, found.next_step != "") == ("position", True)


def test_only_the_partition_of_the_message_counts(client: Client) -> None:
    error = a_failure()
    a_place(error.queue, partition=1, state="OUTAGE", state_code="KAFKA_UNAVAILABLE")
    assert waits_for(fresh(error), partitions={0}) is None
    assert waits_for(fresh(error), partitions={1}) is not None


def test_a_continuous_queue_does_not_wait_for_its_system_but_holds_again() -> None:
    error = a_failure()
    system_off(fresh(error))
    found = waits_for(fresh(error))
    assert found is not None
    assert "put on hold again" in found.why


def page_of(client: Client, operation: UUID) -> str:
    page = client.get(reverse("operation", args=[operation])).text
    return unescape(" ".join(page.split()))


def test_an_operation_says_what_its_released_messages_wait_for(client: Client) -> None:
    error = a_failure()
    a_held(error.queue, 11)
    operation = started(plan())
    run(operation)
    assert "They wait" not in page_of(client, operation.pk)
    switched(paused=True, pause_reason="moving")(error.queue)
    page = page_of(client, operation.pk)
    assert f"{error.queue.name}</a>: The queue is paused: moving. Resume the queue." in page
    MessageError.objects.update(state="RESOLVED", ended="APPLIED", version=3)
    assert "They wait" not in page_of(client, operation.pk)


def test_what_all_queues_wait_for_is_said_once(client: Client) -> None:
    error = a_failure()
    # After the other by its name, however many there have been before.
    other = a_queue_row("continuous", name="such-as-this")
    a_place(other)
    a_held(other)
    operation = started(plan())
    run(operation)
    nobody(error.queue)
    page = page_of(client, operation.pk)
    assert page.count(NO_WORKER.why) == 1
    assert f"{error.queue.name}</a>, <a " in page
    assert f"{other.name}</a>: {NO_WORKER.why}" in page
