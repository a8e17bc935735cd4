"""The dead-letter resend: topics that appear, pauses, the end of resending, and what goes round."""

import uuid
from copy import copy
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from crontasks.builtin import dead_letters
from crontasks.builtin.dead_letters import (
    DeadLetterResend,
    NoSuchRowError,
    ResendParameters,
    group_pattern,
)
from crontasks.models import CronInstance
from crontasks.outcome import Context, Outcome, RunState
from integration.codec import decode_headers
from integration.documents.patterns import BadPattern, whole
from integration.models import ConfigurationChange, MessageError, OutboxRow, Provider, Queue
from integration.runs.queues import run_queue
from integration.selectors.failures.failure import detail
from integration.selectors.scope import EVERYTHING
from integration.selectors.tracking.story import story
from integration.store import returned
from tests.support.builders import a_provider
from tests.support.kafka_world import Kafka
from tests.support.unanswered import wait_a_moment

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def name(broker) -> str:
    """What the topics of one test have in common: the broker is everybody's."""
    a_provider(broker.bootstrap)
    return f"n{uuid.uuid4().hex[:10]}"


def resend(name: str, **parameters: object) -> Outcome:
    given = {"provider": "main", "pattern": f"({name}.+)-dlq", "delay_seconds": 0.0}
    context = Context(instance_id=1, scheduled_at=timezone.now())
    return DeadLetterResend().run(ResendParameters(**(given | parameters)), context)


def drained(topic: str) -> Queue:
    queue = Queue.objects.get(topic=topic)
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=0)
    run_queue(queue.pk)
    return queue


def age(seconds: float) -> None:
    MessageError.objects.update(last_failed_at=F("last_failed_at") - timedelta(seconds=seconds))


def test_topics_are_found_as_they_appear_and_go_back_to_what_their_name_says(broker, name):
    assert resend(name).counts == {}
    dlq = broker.topic(2, f"{name}.orders-dlq")
    broker.topic(1, f"{name}.orders")
    assert resend(name).counts == {"queues": 1}
    assert resend(name).counts == {}
    queue = Queue.objects.get(topic=dlq)
    assert (queue.is_error_queue, queue.partitions.count()) == (True, 2)
    assert CronInstance.objects.get(queue=queue).task == "error_queue_consumer"
    assert ConfigurationChange.objects.filter(kind="queue", action="create").count() == 1

    broker.send(dlq, [b'{"a": 1.10}'], key=b"k", partition=1)
    drained(dlq)
    assert resend(name, delay_seconds=60.0).counts == {}
    age(61)
    assert resend(name, delay_seconds=60.0).counts == {"RETURNED": 1}
    assert resend(name, delay_seconds=60.0).counts == {}
    sent = OutboxRow.objects.get()
    assert (sent.topic, bytes(sent.key or b"")) == (f"{name}.orders", b"k")
    assert bytes(sent.value or b"") == b'{"a": 1.10}'
    assert dict(decode_headers(sent.headers)) == {"retryCount": b"1"}


def test_a_topic_that_cannot_be_registered_takes_no_place_of_another(broker, name, monkeypatch):
    for letter in "ab":
        broker.topic(name=f"{name}.{letter}-dlq", **{"retention.ms": "500"})
    broker.topic(name=f"{name}.c-dlq")
    assert resend(name, most_queues=1).counts == {"queues": 1}
    assert Queue.objects.get().topic == f"{name}.c-dlq"
    assert resend(name, most_queues=1).counts == {}
    # Where there are too many to try all of them, each has its turn.
    monkeypatch.setattr(dead_letters, "TRIES_PER_QUEUE", 1)
    broker.topic(name=f"{name}.d-dlq")
    assert any(resend(name, most_queues=1).counts for _ in range(50))
    assert resend(name, most_queues=0).counts == {}


@pytest.mark.parametrize("keeps_headers", [True, False])
def test_what_fails_again_and_again_is_left_to_people(broker, name, keeps_headers):
    """Also where the application that dead-letters it keeps nothing of what it was sent."""
    dlq = broker.topic(1, f"{name}.orders-dlq")
    resend(name)
    broker.send(dlq, [{"n": 1}], key=b"k")
    told = []
    for _ in range(4):
        drained(dlq)
        told.append(resend(name, most_resends=2).counts)
        sent = OutboxRow.objects.order_by("-id").first()
        if sent is not None and told[-1] == {"RETURNED": 1}:
            headers = list(decode_headers(sent.headers)) if keeps_headers else []
            broker.send(dlq, [bytes(sent.value or b"")], key=b"k", headers=headers)
    assert told == [{"RETURNED": 1}, {"RETURNED": 1}, {"RESENDS_SPENT": 1}, {}]
    left = MessageError.objects.get(state="HOLD")
    assert left.code == "RESENDS_SPENT"
    assert left.changes.get().action == "give up"


def test_what_a_foreign_application_says_of_it_is_in_no_decision(broker, name):
    """Decisions are kept when the failure is gone, and no masking rule covers what people say."""
    dlq = broker.topic(1, f"{name}.orders-dlq")
    resend(name)
    told = b"account DE89ABCX is locked for Smith"
    headers = [("kafka_dlt-original-topic", f"{name}.orders".encode())]
    broker.send(dlq, [{"n": 1}], headers=[*headers, ("kafka_dlt-exception-message", told)])
    drained(dlq)
    assert resend(name, most_resends=0).counts == {"RESENDS_SPENT": 1}
    left = MessageError.objects.get()
    change = left.changes.get()
    assert "Smith" in left.text
    assert change.reason == "It was sent back 0 times and has failed again."
    change.reason = left.text
    change.save()
    shown = detail(left.pk, EVERYTHING)
    assert shown is not None
    assert [one.reason for one in shown.changes] == [
        "It was sent back 0 times and has failed again."
    ]
    whole_story = story(left.message_id, EVERYTHING)
    assert whole_story is not None
    told = [event.text for event in whole_story.events if "sent back 0" in event.text]
    assert "It was sent back 0 times and has failed again." in told
    assert told.count(left.text) < 2, "as its failure's text, which is masked, if at all"


@pytest.mark.parametrize("origin", ["{name}.orders-dlq", "{name}.other-dlq"])
def test_a_dead_letter_topic_that_feeds_itself_or_another_stands_still(broker, name, origin):
    dlq = broker.topic(1, f"{name}.orders-dlq")
    resend(name)
    headers = [("kafka_dlt-original-topic", origin.format(name=name).encode())]
    broker.send(dlq, [{"n": 1}], headers=headers)
    broker.send(dlq, [{"n": 2}])
    drained(dlq)
    assert resend(name).counts == {"RESEND_LOOP": 1, "RETURNED": 1}
    assert (OutboxRow.objects.count(), MessageError.objects.get(state="HOLD").code) == (
        1,
        "RESEND_LOOP",
    )


def test_pauses_may_grow_with_each_resend(broker, name):
    dlq = broker.topic(1, f"{name}.orders-dlq")
    resend(name)
    broker.send(dlq, [{"n": 1}], headers=[("retryCount", b"2")])
    drained(dlq)
    for passed, counts in ((39, {}), (2, {"RETURNED": 1})):
        age(passed)
        assert resend(name, delay_seconds=10.0, factor=2.0).counts == counts


def test_what_is_still_in_its_pause_takes_no_place_of_what_is_due(broker, name, monkeypatch):
    monkeypatch.setattr(dead_letters, "PAGE_ROWS", 1)
    dlq = broker.topic(1, f"{name}.orders-dlq")
    resend(name)
    broker.send(dlq, [{"n": 1}], headers=[("retryCount", b"3")])
    broker.send(dlq, [{"n": n} for n in (2, 3)])
    drained(dlq)
    age(61)
    first = MessageError.objects.filter(offset=0)
    first.update(last_failed_at=F("last_failed_at") - timedelta(seconds=1))
    given = {"delay_seconds": 60.0, "factor": 10.0, "at_most": 1}
    told = [resend(name, **given).counts for _ in range(3)]
    assert told == [{"RETURNED": 1}, {"RETURNED": 1}, {}]
    assert first.get().state == "HOLD"


def rows_read(error_id: uuid.UUID) -> float:
    """Rows of tables that the count for one dead letter looks at."""

    def below(node: dict[str, Any]) -> float:
        seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        own = seen * node["Actual Loops"] if "Relation Name" in node else 0
        return own + sum(map(below, node.get("Plans", [])))

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE integration_messageerror")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {returned.COUNTS}", [[error_id]])
        return below(cursor.fetchone()[0][0]["Plan"])


def test_the_count_for_one_looks_at_no_others_that_were_sent_back(broker, name):
    """Each page of a run counts: with all that ever went back, a loop of them never ends."""
    dlq = broker.topic(1, f"{name}.orders-dlq")
    resend(name)
    broker.send(dlq, [{"n": 1}], key=b"k")
    drained(dlq)
    asked = MessageError.objects.get()
    others = [(b'{"n": 1}', b"k"), (b'{"n": 1}', None), (b'{"n": 1}', b"another"), (b"", b"k")]
    others += [(str(n).encode(), b"k") for n in range(3_000)]
    rows = [copy(asked) for _ in others]
    for offset, (row, (payload, key)) in enumerate(zip(rows, others, strict=True), start=1):
        row.pk, row.offset, row.payload, row.key = uuid.uuid4(), offset, payload, key
        row.state, row.ended = "RESOLVED", "RETURNED"
    MessageError.objects.bulk_create(rows, batch_size=500)
    MessageError.objects.filter(offset=7).update(edited_payload=asked.payload)
    assert returned.counts([asked.pk]) == {asked.pk: 2}
    assert rows_read(asked.pk) < 20
    MessageError.objects.exclude(offset=7).update(key=None, payload=b"x")
    assert returned.counts([asked.pk]) == {asked.pk: returned.MOST}, "more would not count"


def test_a_topic_without_a_name_to_go_to_waits_for_people(broker, name):
    dlq = broker.topic(1, f"{name}-dead")
    resend(name, pattern=f"{name}-dead")
    broker.send(dlq, [{"n": 1}])
    drained(dlq)
    assert resend(name, pattern=f"{name}-dead").counts == {"RETURN_REFUSED": 1}


def test_a_broker_that_is_away_fails_the_run_and_stops_no_resend(broker, name, monkeypatch):
    dlq = broker.topic(1, f"{name}.orders-dlq")
    resend(name)
    broker.send(dlq, [{"n": 1}])
    drained(dlq)
    Provider.objects.update(bootstrap_servers="127.0.0.1:1")
    wait_a_moment(monkeypatch)
    outcome = resend(name)
    assert (outcome.state, outcome.counts) == (RunState.FAILED, {"RETURNED": 1})


def test_wrong_parameters_say_so(broker, name):
    with pytest.raises(NoSuchRowError):
        resend(name, provider="nobody")
    Provider.objects.update(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(BadPattern):
        resend(name, pattern="(a")


def test_the_founding_pattern_names_the_origin():
    assert whole(group_pattern(".*-dlq"), "normal-topic-dlq") == "normal-topic"
    assert whole(group_pattern(".*-dlq"), "normal-topic-dlq2") is None
