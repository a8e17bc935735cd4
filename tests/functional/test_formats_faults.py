"""A registry that fails, and messages that are worse: each ends on its own message, with a code."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.delivery.report import RunEnding
from integration.formats.wire import framed
from integration.handlers import PayloadRefusedError, publish
from integration.handlers.failures import OutageError
from integration.models import (
    MessageError,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
    RegistrySchema,
)
from integration.registries import encoding, known
from integration.runs.queues import run_queue
from integration.store.configuration import snapshot
from tests.support.avro import ORDER, an_avro
from tests.support.builders import a_brief_queue
from tests.support.channels import a_channel
from tests.support.flows import drain, effects, held, standing
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person
from tests.support.small_registry import SmallRegistry

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

LATER = {**ORDER, "fields": [{"name": "n", "type": "string"}]}


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """As a new process: nothing is known of any registry."""
    known.forget_everything()
    encoding.forget_subjects()
    yield
    known.forget_everything()


@pytest.fixture
def queue(servers, small_registry: SmallRegistry) -> Queue:
    queue = a_brief_queue(Kafka(servers.kafka_bootstrap))
    Provider.objects.filter(pk=queue.provider_id).update(registry_url=small_registry.url)
    small_registry.put(7, ORDER, subject=f"{queue.topic}-value")
    return Queue.objects.select_related("provider").get(pk=queue.pk)


def send(queue: Queue, *values: bytes | dict[str, object]) -> None:
    Kafka(queue.provider.bootstrap_servers).send(queue.topic, values)


def an_order(n: int) -> bytes:
    return an_avro({"n": n, "do": "ok"})


def probe_now(queue: Queue) -> None:
    """The time until the next probe has passed."""
    QueuePartition.objects.filter(queue=queue).update(resume_at=timezone.now())


@pytest.mark.parametrize("trouble", ["500", "slow", "gone"])
def test_without_the_registry_the_queue_waits_and_spends_nothing(
    queue, small_registry, trouble, monkeypatch
):
    if trouble == "500":
        small_registry.status = 500
    elif trouble == "slow":
        monkeypatch.setattr("integration.registries.client.ANSWER_SECONDS", 1.5)
        small_registry.delay_seconds = 3.0
    else:
        Provider.objects.update(registry_url="http://127.0.0.1:1")
    send(queue, {"n": 0}, an_order(1), an_order(2))

    drain(queue)

    assert effects() == [0]
    assert standing(queue) == (1, "OUTAGE", "REGISTRY_AWAY")
    assert not MessageError.objects.exists()

    small_registry.status, small_registry.delay_seconds = 200, 0.0
    Provider.objects.update(registry_url=small_registry.url)
    time.sleep(known.AGAIN_SECONDS + 0.1)
    probe_now(queue)
    drain(queue, runs=2)

    assert effects() == [0, 1, 2]
    assert standing(queue) == (3, "RUNNING", "")


def test_a_login_that_is_refused_is_an_outage_with_a_code_of_its_own(queue, small_registry):
    small_registry.status = 401
    send(queue, an_order(1))
    drain(queue)
    assert standing(queue) == (0, "OUTAGE", "REGISTRY_REFUSED")


def test_a_registry_that_was_rebuilt_is_said_and_not_guessed(queue, small_registry):
    send(queue, an_order(1))
    drain(queue)
    small_registry.put(7, LATER, subject=f"{queue.topic}-value")
    # As another process: it knows nothing, but what the database keeps.
    known.forget_everything()
    send(queue, an_avro({"n": "2"}, LATER), {"n": 3})
    drain(queue)
    assert held(queue) == {1: "SCHEMA_CHANGED"}
    assert effects() == [1, 3]

    page = Client()
    page.force_login(a_person("Administrators"))
    address = reverse("provider-forget", args=[queue.provider_id])
    assert page.post(address, {"reason": ""}).status_code == 422
    assert RegistrySchema.objects.count() == 1
    assert page.post(address, {"reason": "rebuilt yesterday"}).status_code == 303
    assert not RegistrySchema.objects.exists()


def test_truncated_and_hostile_records_are_held_as_they_came(queue, small_registry):
    nulls = {"type": "array", "items": "null"}
    small_registry.put(8, nulls, subject="nulls")
    whole = an_order(5)
    sent = {
        1: (whole[:-1], "TRUNCATED_ENCODING"),
        3: (whole + b"\0", "NOT_BY_SCHEMA"),
        5: (framed(8, b"\x80\x80\x80\x80\x80\x20"), "TOO_MANY_VALUES"),
        7: (framed(7, b"\xff" * 20), "NOT_BY_SCHEMA"),
    }
    values: list[bytes | dict[str, object]] = []
    for raw, _ in sent.values():
        values += [an_order(len(values)), raw]
    send(queue, *values, an_order(len(values)))

    drain(queue)

    assert effects() == [0, 2, 4, 6, 8]
    assert held(queue) == {offset: code for offset, (_, code) in sent.items()}
    kept = dict(MessageError.objects.values_list("offset", "payload"))
    assert {offset: bytes(raw) for offset, raw in kept.items()} == {
        offset: raw for offset, (raw, _) in sent.items()
    }


def test_login_and_secrets_go_to_the_registry_alone(queue, small_registry):
    provider = Provider.objects.get()
    provider.registry_username, provider.registry_password = "ada", "hush-hush"
    provider.save()
    send(queue, an_order(1))
    drain(queue)
    assert set(small_registry.logins) == {"Basic YWRhOmh1c2gtaHVzaA=="}
    page = Client()
    page.force_login(a_person("Administrators"))
    assert "hush-hush" not in page.get(reverse("provider", args=[provider.pk])).text
    assert "hush-hush" not in page.get(reverse("provider-change", args=[provider.pk])).text


def test_a_run_ends_once_its_registry_is_another_one(queue, small_registry):
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=30.0)
    send(queue, an_order(1))

    def changes() -> None:
        if effects():
            Provider.objects.update(registry_url="http://127.0.0.1:1")

    report = run_queue(queue.pk, stop=lambda **_: changes())
    assert report.ending is RunEnding.STOPPED
    send(queue, an_order(2))
    drain(queue)
    assert effects() == [1]
    assert standing(queue) == (1, "OUTAGE", "REGISTRY_AWAY")


def test_only_what_reaches_a_provider_is_another_road_and_nobody_can_read_it(queue):
    provider, before = queue.provider, snapshot(queue.pk, worker="w")
    Provider.objects.update(idle_watched_at=timezone.now(), shards=2)
    assert snapshot(queue.pk, worker="w").reached_by == before.reached_by
    for field in ("bootstrap_servers", "password", "registry_password", "registry_ca_certificate"):
        setattr(provider, field, "hush-hush")
        provider.save(update_fields=[field])
        after = snapshot(queue.pk, worker="w")
        assert after.reached_by != before.reached_by
        assert after.mark != before.mark
        assert "hush-hush" not in repr(after)
        before = after


# Publishing


@pytest.fixture
def channel(small_registry: SmallRegistry) -> None:
    made = a_channel("ORDERS", "erp", envelope=False, subject_by="topic")
    Provider.objects.update(registry_url=small_registry.url)
    small_registry.put(9, ORDER, subject=f"{made.targets.get().queue.topic}-value")


def test_a_payload_is_written_by_the_latest_schema_with_its_facts_in_headers(channel):
    publish("ORDERS", {"n": 1}, key="k")
    row = OutboxRow.objects.get()
    assert bytes(row.value) == an_avro({"n": 1, "do": None}, schema_id=9)
    assert "sluice-interface" in json.dumps(row.headers)


def test_a_payload_that_does_not_fit_is_refused(channel):
    with pytest.raises(PayloadRefusedError) as told:
        publish("ORDERS", {"n": "one"})
    assert told.value.failure_code == "SCHEMA_MISFIT"
    assert not OutboxRow.objects.exists()


def test_a_subject_that_is_not_there_is_refused(channel, small_registry):
    small_registry.schemas.clear()
    with pytest.raises(PayloadRefusedError) as told:
        publish("ORDERS", {"n": 1})
    assert told.value.failure_code == "SUBJECT_UNKNOWN"


def test_what_publishes_waits_for_an_absent_registry(channel, small_registry):
    small_registry.status = 503
    with pytest.raises(OutageError) as told:
        publish("ORDERS", {"n": 1})
    assert told.value.failure_code == "REGISTRY_AWAY"


def test_what_the_former_registry_said_counts_no_more_though_the_new_one_is_away(channel):
    publish("ORDERS", {"n": 1})
    Provider.objects.update(registry_url="http://127.0.0.1:1")
    with pytest.raises(OutageError) as told:
        publish("ORDERS", {"n": 2})
    assert told.value.failure_code == "REGISTRY_AWAY"
    assert OutboxRow.objects.count() == 1


def encode(provider: Provider, subject: str, n: int) -> bytes:
    """Write a document by the latest version of a subject."""
    return encoding.encode(provider.pk, provider.registry_url, subject, None, {"n": n})


def asked_by(count: int, provider: Provider, seconds: list[float]) -> list[threading.Thread]:
    """Threads that write by a subject of the provider's; each notes how long it took."""

    def ask() -> None:
        begun = time.monotonic()
        with closing(connections["default"]), suppress(OutageError):
            encode(provider, "t-value", 1)
        seconds.append(time.monotonic() - begun)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_a_registry_that_hangs_keeps_nobody_waiting_who_writes_by_another(servers, small_registry):
    small_registry.put(9, ORDER, subject="t-value")
    healthy = Provider.objects.create(name="healthy", registry_url=small_registry.url)
    encode(healthy, "t-value", 1)
    hanging = SmallRegistry()
    hanging.status, hanging.delay_seconds = 503, 3.0
    away = Provider.objects.create(name="away", registry_url=hanging.url)
    seconds: list[float] = []
    threads = asked_by(3, away, seconds)
    try:
        while not hanging.asked:
            time.sleep(0.01)
        encode(healthy, "t-value", 2)
        assert seconds == [], "who asks the one that hangs is still waiting"
    finally:
        for thread in threads:
            thread.join()
        hanging.close()
    assert len(hanging.asked) == 1, "the others believe what the first was told"


@pytest.mark.parametrize("seconds", [0.0, encoding.SLOW_SECONDS + 0.1], ids=["quickly", "slowly"])
def test_what_a_registry_refuses_is_that_subject_alone(servers, small_registry, seconds):
    small_registry.put(9, ORDER, subject="t-value")
    provider = Provider.objects.create(name="choosy", registry_url=small_registry.url)
    small_registry.status, small_registry.delay_seconds = 403, seconds
    with pytest.raises(OutageError) as told:
        encode(provider, "hers", 1)
    assert told.value.failure_code == "REGISTRY_REFUSED"
    small_registry.status = 200
    assert encode(provider, "t-value", 1)
    with pytest.raises(OutageError):
        encode(provider, "hers", 1)


def test_a_registry_that_came_back_is_asked_again_in_a_second(channel, small_registry):
    small_registry.status = 503
    for _ in range(2):
        with pytest.raises(OutageError):
            publish("ORDERS", {"n": 1})
    assert len(small_registry.asked) == 1
    small_registry.status = 200
    time.sleep(known.AGAIN_SECONDS + 0.1)
    publish("ORDERS", {"n": 1})
