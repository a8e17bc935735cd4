"""Many dead letters are sent back in one operation: each once, in order, where that is allowed."""

import base64

import pytest
from django.urls import reverse

from crontasks.running.operating import run_operation
from integration.actions import operations
from integration.actions.operation_items import OperationStep
from integration.actions.operations import Options
from integration.codec import decode_headers
from integration.models import (
    ErrorChange,
    ExternalSystem,
    MessageError,
    MessageTrack,
    Operation,
    OutboxRow,
    Queue,
)
from integration.policy.states import OperationState
from integration.selectors.scope import Scope
from tests.support.operations import outcomes, plan, run, started
from tests.support.rows import a_held, a_place, a_queue_row
from tests.support.set_up import limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

VERB = "send back"
HEADERS = {"tenant": b"north", "kafka_dlt-original-topic": b"eam.orders", "retryCount": b"2"}


def letters(*origins: str, **fields) -> list[MessageError]:
    """Dead letters on one error queue, by the topics they came from."""
    queue = a_queue_row("sequential", is_error_queue=True, **fields)
    a_place(queue)
    headers = [[name, base64.b64encode(value).decode()] for name, value in HEADERS.items()]
    return [
        a_held(
            queue,
            offset,
            origin_topic=origin,
            payload=b'{"n": %d}' % offset,
            headers=headers,
            code="DEAD_LETTER",
            arrival_batch=1,
            arrival_index=offset,
        )
        for offset, origin in enumerate(origins)
    ]


def test_each_goes_back_once_in_order_and_is_closed_and_told_of():
    rows = letters("eam.orders", "eam.orders", "eam.assets")
    for offset, number in ((1, "P-7"), (1, "P-8")):
        MessageTrack.objects.create(
            queue=rows[0].queue,
            partition=0,
            offset=offset,
            arrival_batch=1,
            message_id=rows[offset].message_id,
            interface="",
            ended="HOLD",
            external_id=number,
            caused_by="order-1",
        )
    operation = started(plan(VERB), reason="stock is there again")
    assert operation.title == f"Send back 3 messages of {rows[0].queue.name}"
    assert run(operation) is OperationState.DONE
    assert outcomes(operation) == ["DONE"] * 3
    sent = list(OutboxRow.objects.order_by("id"))
    assert [(row.topic, bytes(row.value or b"")) for row in sent] == [
        ("eam.orders", b'{"n": 0}'),
        ("eam.orders", b'{"n": 1}'),
        ("eam.assets", b'{"n": 2}'),
    ]
    assert dict(decode_headers(sent[0].headers)) == {"tenant": b"north", "retryCount": b"3"}
    ends = MessageError.objects.exclude(closed_at=None).values_list("state", "ended", "version")
    assert list(ends) == [("RESOLVED", "RETURNED", 2)] * 3
    told = set(ErrorChange.objects.values_list("actor", "action", "reason", "operation"))
    assert told == {("otto", VERB, "stock is there again", operation.pk)}
    tracks = MessageTrack.objects.filter(ended="RETURNED").order_by("offset")
    found = list(tracks.values_list("external_id", "caused_by"))
    assert found == [(None, None), ("P-8", "order-1"), (None, None)]
    assert [one.batch_rows for one in tracks] == [3, None, None]
    assert len({one.at for one in tracks}) == 1


def test_what_may_not_go_stays_with_its_reason_and_the_plan_says_so_before():
    rows = letters("eam.orders", "", "__consumer_offsets")
    own = letters("x")[0]
    MessageError.objects.filter(pk=own.pk).update(origin_topic=own.queue.topic)
    operation, client = plan(VERB), logged_in()
    page = " ".join(client.get(reverse("operation", args=[operation.pk])).text.split())
    assert "Send back 1 message?" in page
    assert "may not go where they came from" in page
    for why in ("from which topic it came", "internal to Kafka", "reads itself"):
        assert why in page
    assert run(started(operation)) is OperationState.DONE
    assert sorted(outcomes(operation)) == ["DONE", "REFUSED", "REFUSED", "REFUSED"]
    assert OutboxRow.objects.get().topic == "eam.orders"
    left = MessageError.objects.filter(state="HOLD", version=1).values_list("pk", flat=True)
    assert set(left) == {rows[1].pk, rows[2].pk, own.pk}
    assert "internal to Kafka" in client.get(reverse("operation", args=[operation.pk])).text


def test_a_limited_person_sends_nothing_to_topics_of_others_also_by_a_worker():
    mine = ExternalSystem.objects.create(name="eam")
    other = ExternalSystem.objects.create(name="lab")
    letters("eam.orders", "lab.orders", "shared", system=mine)
    Queue.objects.create(
        name="shared",
        topic="shared",
        provider=Queue.objects.get().provider,
        kind="continuous",
        start_from="beginning",
        system=other,
    )
    client = limited_to(mine)
    client.post(reverse("review"), {"verb": VERB, "scope": "matching", "query": "state=HOLD"})
    operation = Operation.objects.get()
    page = client.get(reverse("operation", args=[operation.pk])).text
    assert "Send back 1 message?" in " ".join(page.split())
    address = reverse("operation-start", args=[operation.pk])
    assert client.post(address, {"version": 1}).status_code == 303
    assert run(operation) is OperationState.DONE
    assert OutboxRow.objects.get().topic == "eam.orders"


def test_whoever_resumes_it_lends_it_their_scope():
    letters("lab.orders", "lab.orders")
    operation = plan(VERB)
    operations.start(operation.pk, Options(), version=1, actor="ann", scope=Scope(frozenset()))
    operations.pause(operation.pk, actor="ann")
    operation.refresh_from_db()
    operations.resume(operation.pk, version=operation.version, actor="adam")
    assert run(operation) is OperationState.DONE
    assert outcomes(operation) == ["DONE", "DONE"]


def test_whoever_lets_it_go_on_in_the_midst_of_a_turn_lends_it_their_scope_at_once():
    letters("lab.orders", "lab.orders")
    operation = started(plan(VERB), rate=1)

    def lends(step: OperationStep) -> None:
        if step is OperationStep.COMMITTED and Operation.objects.get().done == 1:
            operations.pause(operation.pk, actor="ann")
            version = Operation.objects.get().version
            nothing = Scope(frozenset())
            operations.resume(operation.pk, version=version, actor="ann", scope=nothing)

    assert run_operation(operation.pk, stop=lambda: None, observe=lends) is OperationState.DONE
    assert outcomes(operation) == ["DONE", "REFUSED"]


def test_the_list_offers_it_for_dead_letters_to_those_who_may_operate():
    client = logged_in("Viewers")
    a_held(a_queue_row("continuous"))
    button = 'value="send back"'
    assert button not in client.get(reverse("failure-list")).text
    letters("eam.orders")
    assert button in client.get(reverse("failure-list")).text
    assert button in client.get(reverse("failures"), {"by": "cause"}).text
    assert client.post(reverse("review"), {"verb": VERB}).status_code == 403
