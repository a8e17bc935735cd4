"""A decision about what was sent since a backup, where a provider names another cluster by now."""

import time
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from devstack.server import Server
from integration.actions import outbox
from integration.actions.errors import QueueMismatchError
from integration.delivery.relay.run import RelayEnd
from integration.kafka import admin, aftermath
from integration.models import OutboxRow, Provider, RelayLease, Restore, RestoreFinding
from integration.policy.relay_shares import shard_of, share
from integration.restore import examining, options
from integration.restore.deciding import decide
from integration.runs import relay as wiring
from integration.store import relay_lease
from tests.functional.relay_world import a_provider, batch_of, put, states
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

SHARDS = 3
ENOUGH_SECONDS = 40.0


@pytest.fixture
def broker(kafka: Server, monkeypatch: pytest.MonkeyPatch) -> Kafka:
    monkeypatch.setattr(settings, "SLUICE_DEPLOYMENT", f"moved-{uuid.uuid4().hex[:8]}")
    return Kafka(kafka.bootstrap)


def relay(provider: Provider, shard: int, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENOUGH_SECONDS

    def stop() -> bool:
        assert time.monotonic() < deadline, "the relay did not get there"
        return until()

    assert wiring.run_relay(provider.pk, shard, stop=stop) is RelayEnd.STOPPED


def leave(provider: Provider, shard: int, watermark: str) -> None:
    """What an earlier relay of the shard may have left in Kafka."""
    publisher = wiring.publisher_for(provider.pk, shard)
    with closing(publisher):
        publisher.open()
        publisher.write_watermark(watermark)


def a_topic(shard: int) -> str:
    while shard_of(name := f"moved-{uuid.uuid4().hex[:8]}", SHARDS) != shard:
        pass
    return name


def as_of(provider: Provider) -> str:
    tenure = relay_lease.take(provider.pk, 0, "test")
    assert tenure is not None
    with closing(tenure):
        return tenure.provider_as_of


def three_shards(provider: Provider, **noted: str) -> list[OutboxRow]:
    """A row that waits, one in doubt, and one of a batch on its way, each of a shard of its own.

    Their leases have `noted` of the place where they sent to last; else that the cluster told no
    id, and that the provider was what it is.
    """
    Provider.objects.filter(pk=provider.pk).update(shards=SHARDS)
    place = {"provider_as_of": as_of(provider), **noted}
    ids = [put(provider, b"once", topic=a_topic(n))[0] for n in range(SHARDS)]
    OutboxRow.objects.filter(pk=ids[1]).update(state="STAMPED", batch=uuid.uuid4())
    batches: list[dict[str, Any]] = [
        {},
        {"in_doubt_since": timezone.now(), "in_doubt_text": "Is it there?"},
        {"batch": uuid.uuid4(), "batch_rows": [ids[2]]},
    ]
    RelayLease.objects.all().delete()
    for n, batch in enumerate(batches):
        held = share(n, SHARDS)
        buckets = {"first_bucket": held.first, "end_bucket": held.end}
        RelayLease.objects.create(
            **{"provider": provider, "shard": n, "watermark": "", **buckets, **place, **batch}
        )
    return [OutboxRow.objects.get(pk=number) for number in ids]


def create_topics(provider: Provider, rows: list[OutboxRow]) -> None:
    for row in rows:
        admin.create_topic(provider, row.topic, partitions=1)


def lease(shard: int) -> RelayLease:
    return RelayLease.objects.get(shard=shard)


def looked() -> RestoreFinding:
    restore = examining.current()
    assert restore is not None
    [finding] = examining.look(restore).findings.all()
    return finding


def decided(word: str) -> RestoreFinding:
    finding = looked()
    decide(finding.pk, word, actor="anna", reason="seen")
    assert examining.current() is None
    return finding


@pytest.mark.parametrize("has_id", [True, False], ids=["an id", "no id"])
def test_batches_that_are_open_are_looked_for_where_the_provider_is_as_it_was(
    broker: Kafka, has_id: bool
) -> None:
    provider = a_provider(bootstrap_servers=broker.bootstrap)
    rows = three_shards(provider, cluster=aftermath.cluster(provider) if has_id else "")
    create_topics(provider, rows)
    leave(provider, 0, str(uuid.uuid4()))
    relay(provider, 0, Restore.objects.exists)

    assert decided(options.MARK_SENT).facts["waiting"] == len(rows)

    for shard, row in enumerate(rows):
        relay(provider, shard, lambda pk=row.pk: states(pk) == ["PUBLISHED"])
    assert [len(broker.read_all(row.topic)) for row in rows] == [1, 1, 1]
    assert lease(0).cluster == aftermath.cluster(provider), "who asks is told the same"


@pytest.mark.parametrize(
    "noted",
    [{"cluster": "another"}, {"provider_as_of": "another"}],
    ids=["another id", "no id"],
)
def test_no_look_at_this_cluster_decides_what_a_former_one_may_have(
    broker: Kafka, noted: dict[str, str]
) -> None:
    """This one was in use before: what it has last is none of this database's batches."""
    provider = a_provider(bootstrap_servers=broker.bootstrap)
    rows = three_shards(provider, **noted)
    create_topics(provider, rows)
    for shard, last in enumerate((str(uuid.uuid4()), "", "")):
        leave(provider, shard, last)
    relay(provider, 0, Restore.objects.exists)

    assert decided(options.SEND_ALL).facts["waiting"] == 1

    waiting, doubtful, on_its_way = rows
    relay(provider, 0, lambda: states(waiting.pk) == ["PUBLISHED"])
    relay(provider, 2, lambda: lease(2).in_doubt_since is not None)
    assert states(doubtful.pk, on_its_way.pk) == ["STAMPED", "STAMPED"]
    # Looked for in the former cluster: the one is there, the other is not.
    for shard, row, is_there in ((1, doubtful, True), (2, on_its_way, False)):
        batch = batch_of(row.pk)
        outbox.resolve_in_doubt(lease(shard).pk, batch=batch, sent=is_there, actor="anna")
        relay(provider, shard, lambda shard=shard: lease(shard).cluster == lease(0).cluster)
    relay(provider, 2, lambda: states(on_its_way.pk) == ["PUBLISHED"])
    assert [len(broker.read_all(row.topic)) for row in rows] == [1, 0, 1]


@pytest.mark.parametrize(
    ("noted", "is_known"),
    [({}, True), ({"cluster": "another"}, False), ({"provider_as_of": "another"}, False)],
    ids=["same", "another id", "no id"],
)
def test_no_look_at_this_cluster_is_certain_of_what_a_former_one_was_sent_since(
    broker: Kafka, noted: dict[str, str], is_known: bool
) -> None:
    provider = a_provider(bootstrap_servers=broker.bootstrap)
    create_topics(provider, three_shards(provider, **noted))
    leave(provider, 0, str(uuid.uuid4()))
    relay(provider, 0, Restore.objects.exists)

    ways = options.card(looked()).options

    advised = [way.word for way in ways if way.is_advised]
    assert advised == ([options.MARK_SENT] if is_known else [])


def test_a_lease_without_topics_makes_no_look_uncertain(broker: Kafka) -> None:
    """A shard that was given up long ago: nobody has noted there what the provider is since."""
    provider = a_provider(bootstrap_servers=broker.bootstrap)
    create_topics(provider, three_shards(provider))
    spare = {"shard": SHARDS, "first_bucket": 0, "end_bucket": 0, "cluster": "another"}
    RelayLease.objects.create(provider=provider, watermark="", **spare)
    leave(provider, 0, str(uuid.uuid4()))
    relay(provider, 0, Restore.objects.exists)

    assert not looked().facts["has_moved"]


@pytest.mark.parametrize(
    ("noticed_by", "has_moved"), [("person", True), ("timeline", True), ("person", False)]
)
def test_people_are_asked_though_the_cluster_that_is_named_now_has_nothing(
    broker: Kafka, noticed_by: str, has_moved: bool
) -> None:
    provider = a_provider(bootstrap_servers=broker.bootstrap)
    rows = three_shards(provider, **({"cluster": "another"} if has_moved else {}))
    create_topics(provider, rows)
    restore = Restore.objects.create(noticed_by=noticed_by, text="restored from a backup")

    if has_moved:
        finding = decided(options.SEND_ALL)
        assert [way.word for way in options.card(finding).options] == [options.SEND_ALL]
    else:
        assert examining.look(restore).closed_at is not None

    relay(provider, 0, lambda: states(rows[0].pk) == ["PUBLISHED"])


def test_a_standby_that_lost_nothing_goes_on_though_a_shard_is_in_doubt_since_a_move(
    broker: Kafka,
) -> None:
    """It keeps what it knows of the former cluster until people have decided, also for weeks."""
    provider = a_provider(bootstrap_servers=broker.bootstrap)
    create_topics(provider, three_shards(provider))
    RelayLease.objects.filter(shard=1).update(cluster="another")
    restore = Restore.objects.create(noticed_by="timeline", text="a standby took over")

    assert examining.look(restore).closed_at is not None


def test_no_decision_is_made_upon_a_look_at_another_cluster(broker: Kafka) -> None:
    provider = a_provider(bootstrap_servers=broker.bootstrap)
    rows = three_shards(provider)
    create_topics(provider, rows)
    leave(provider, 0, str(uuid.uuid4()))
    relay(provider, 0, Restore.objects.exists)
    finding, before = looked(), list(RelayLease.objects.values())

    Provider.objects.update(bootstrap_servers="127.0.0.1:2")
    for word in (options.MARK_SENT, options.SEND_ALL):
        with pytest.raises(QueueMismatchError):
            decide(finding.pk, word, actor="anna", reason="seen")

    assert list(RelayLease.objects.values()) == before
    assert states(*(row.pk for row in rows)) == ["PENDING", "STAMPED", "PENDING"]
    Provider.objects.update(bootstrap_servers=broker.bootstrap, name="renamed")
    decide(finding.pk, options.MARK_SENT, actor="anna", reason="seen")
    assert examining.current() is None


@pytest.mark.parametrize(
    ("noted", "moves", "kept"),
    [({}, False, False), ({"provider_as_of": "another"}, False, True), ({}, True, True)],
    ids=["same", "changed", "changed since the look"],
)
def test_what_is_decided_of_a_silent_cluster_gives_nothing_to_it_that_a_former_one_may_have(
    monkeypatch: pytest.MonkeyPatch, noted: dict[str, str], moves: bool, kept: bool
) -> None:
    # Nobody is asked there: this is only waited for.
    monkeypatch.setattr(aftermath, "OPEN_SECONDS", 1.0)
    rows = three_shards(a_provider(), cluster="one", **noted)
    examining.declare("restored from the night's backup", "anna")

    finding = looked()
    if moves:
        Provider.objects.update(bootstrap_servers="127.0.0.1:2")
    decide(finding.pk, options.SEND_ALL, actor="anna", reason="seen")

    assert (lease(1).in_doubt_since is not None, lease(2).batch is not None) == (kept, kept)
    doubtful = "STAMPED" if kept else "PENDING"
    assert states(*(row.pk for row in rows)) == ["PENDING", doubtful, "PENDING"]
