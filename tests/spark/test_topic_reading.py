"""A topic as Spark's own connector reads it: whole, in order, and refused where it is not there."""

import json
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from integration.kafka.client import connection
from integration.kafka.grants import Resource, command
from integration.models import Provider
from spark_jobs.errors import JobError
from spark_jobs.topics import cluster as clusters
from spark_jobs.topics import planning
from spark_jobs.topics.cluster import Cluster
from spark_jobs.topics.planning import Wanted
from spark_jobs.topics.reading import COPY, KIND, MESSAGE, RETRY_MARKER, kept, kind_of, records
from tests.support.bulk import event_log, shared_session
from tests.support.celery_world import eventually
from tests.support.kafka_world import Kafka
from tests.support.secured_kafka import SecuredKafka
from tests.support.spark_sending import send_values
from tests.support.unanswered import WHILE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.timeout(500)]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def broker(kafka: Any, servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def plain(broker: Kafka) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap, "security.protocol": "PLAINTEXT"}


def rows(spark: Any, settings: dict[str, str], plan: planning.TopicPlan) -> list[tuple[Any, ...]]:
    frame = records(spark, settings, plan)
    assert frame is not None
    found = frame.selectExpr("partition", "offset", f"{KIND} AS kind", "cast(value AS string)")
    return sorted(tuple(row) for row in found.collect())


def test_offsets_have_gaps_and_what_was_taken_back_is_not_read(spark: Any, broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, [{"n": 0}])
    broker.send_in_transaction(topic, [{"n": 1}, {"n": 2}])
    # The marker comes when the transaction is over, at offset 3.
    eventually(lambda: broker.end(topic) == 4)
    broker.send(topic, [{"n": 4}])
    cluster = Cluster(plain(broker))
    plan = planning.plan(cluster, Wanted(topic=topic))
    assert plan.offsets == 5
    assert [row[1] for row in rows(spark, plain(broker), plan)] == [0, 1, 2, 4]
    assert [one.offset for one in cluster.read(topic, {0: 1}, {0: 5})] == [1, 2, 4]
    # It ends in the marker.
    short = planning.plan(cluster, Wanted(topic=topic, begin="1", end="4"))
    assert [row[1] for row in rows(spark, plain(broker), short)] == [1, 2]
    assert [one.offset for one in cluster.read(topic, {0: 1}, {0: 4})] == [1, 2]


def test_markers_are_told_from_messages_alike_with_and_without_spark(
    spark: Any, broker: Kafka
) -> None:
    topic = broker.topic()
    marker, copy = [("sluice-ticket", b"x")], [("sluice-error", b"x")]
    broker.send(topic, [b""], headers=marker)
    broker.send(topic, [{"n": 1}], headers=marker)
    broker.send(topic, [{"n": 2}], headers=copy)
    broker.send(topic, [b"", None, {"n": 3}])
    cluster = Cluster(plain(broker))
    plan = planning.plan(cluster, Wanted(topic=topic))
    expected = [RETRY_MARKER, MESSAGE, COPY, MESSAGE, MESSAGE, MESSAGE]
    assert [row[2] for row in rows(spark, plain(broker), plan)] == expected
    assert [kind_of(one) for one in cluster.read(topic, {0: 0}, {0: 6})] == expected


def test_a_time_is_resolved_before_anything_is_read(broker: Kafka) -> None:
    topic = broker.topic(partitions=2)
    for n in range(4):
        broker.send(topic, [{"n": n}], partition=0, timestamp=1_000_000 * (n + 1))
    cluster = Cluster(plain(broker))

    def ranges(begin: int, end: int) -> list[tuple[int, int]]:
        at = [datetime.fromtimestamp(second, UTC).isoformat() for second in (begin, end)]
        plan = planning.plan(cluster, Wanted(topic=topic, begin=at[0], end=at[1]))
        return [(part.begin, part.end) for part in plan.parts]

    assert ranges(2_000, 4_000) == [(1, 3), (0, 0)]
    assert ranges(1_500, 9_000) == [(1, 4), (0, 0)]
    assert ranges(8_000, 9_000) == [(4, 4), (0, 0)]
    broker.delete_records(topic, 2)
    old = planning.plan(cluster, Wanted(topic=topic, begin="1970-01-01T00:10Z"))
    assert [(part.begin, part.end) for part in old.parts] == [(2, 4), (0, 0)]
    # Of that time there may have been more; the plan says so.
    assert old.oldest == (0,)


def test_bounds_by_partition_read_no_other(spark: Any, broker: Kafka) -> None:
    topic = broker.topic(partitions=3)
    for partition in range(3):
        broker.send(topic, [{"n": n} for n in range(5)], partition=partition)
    cluster = Cluster(plain(broker))
    plan = planning.plan(cluster, Wanted(topic=topic, begin="0:2,2:4", end="0:4,2:5"))
    assert [row[:2] for row in rows(spark, plain(broker), plan)] == [(0, 2), (0, 3), (2, 4)]
    for begin, end in (("7:0", ""), ("0:1", "1:1")):
        with pytest.raises(JobError) as told:
            planning.plan(cluster, Wanted(topic=topic, begin=begin, end=end))
        assert told.value.code == "BAD_PARAMETERS"
    with pytest.raises(JobError) as told:
        planning.plan(cluster, Wanted(topic="none"))
    assert told.value.code == "UNKNOWN_TOPIC"
    empty = planning.plan(cluster, Wanted(topic=topic, begin="5", end="5"))
    assert records(spark, plain(broker), empty) is None


def test_offsets_that_expire_before_they_are_read_are_named(spark: Any, broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, [{"n": n} for n in range(10)])
    cluster = Cluster(plain(broker))
    plan = planning.plan(cluster, Wanted(topic=topic))
    broker.delete_records(topic, 6)
    with pytest.raises(JobError) as told:
        kept(cluster, plan, lambda: rows(spark, plain(broker), plan))
    assert told.value.code == "RANGE_EXPIRED"
    assert "Offsets 0 to 5 of partition 0" in told.value.text


def test_a_topic_that_was_made_anew_meanwhile_is_not_believed(spark: Any, broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, [{"n": n} for n in range(10)])
    cluster = Cluster(plain(broker))
    plan = planning.plan(cluster, Wanted(topic=topic))
    broker.delete(topic)
    broker.topic(name=topic)
    broker.send(topic, [{"n": n} for n in range(10)])
    with pytest.raises(JobError) as told:
        kept(cluster, plan, lambda: rows(spark, plain(broker), plan))
    assert told.value.code == "TOPIC_REPLACED"


@pytest.mark.parametrize("way", ["by_scram", "by_certificate"])
def test_spark_reads_and_writes_a_secured_cluster_and_tells_no_secret(
    spark: Any, secured_kafka: SecuredKafka, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    before = {file: file.stat().st_size for file in _event_files()}
    broker = Kafka(secured_kafka.bootstrap)
    topic, out = broker.topic(), broker.topic()
    broker.send(topic, [{"n": 1}, {"n": 2}])
    provider = Provider(pk=1, name="plant", **getattr(secured_kafka, way)())
    settings = {name: str(value) for name, value in connection(provider).properties.items()}
    cluster = Cluster(settings)
    with pytest.raises(JobError) as refused:
        cluster.topic(topic)
    assert refused.value.code == "CLUSTER_SILENT"
    for one, operations in ((topic, ("Describe", "Read")), (out, ("Describe", "Write"))):
        secured_kafka.grant(command(provider, Resource("--topic", one), operations))

    plan = planning.plan(cluster, Wanted(topic=topic))
    assert [row[1] for row in rows(spark, settings, plan)] == [0, 1]
    frame = records(spark, settings, plan)
    assert frame is not None
    sent = frame.select("value").rdd.mapPartitions(partial(send_values, settings, out)).collect()
    assert sum(sent) == 2
    assert len(broker.read_all(out)) == 2
    secrets = [settings[name] for name in ("sasl.password", "ssl.key.pem") if name in settings]
    # A key is told in lines, or in one.
    texts = [line for secret in secrets for line in secret.splitlines() if "-----" not in line]
    assert texts
    told = "".join([*_pages(spark), *capfd.readouterr(), *_event_log(before), *_command_lines()])
    assert [text for text in texts if text in told] == []
    assert topic in told, "what was looked through is of this reading"


def test_a_wrong_password_is_told_without_it(
    secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "ANSWER_SECONDS", WHILE_SECONDS)
    provider = Provider(
        pk=1, name="plant", **{**secured_kafka.by_scram(), "password": "a-wrong-one"}
    )
    wrong = Cluster(connection(provider).properties)
    with pytest.raises(JobError) as refused:
        wrong.topic("whatever")
    assert refused.value.code == "CLUSTER_SILENT"
    assert "a-wrong-one" not in refused.value.text


def _pages(spark: Any) -> list[str]:
    at = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    pages = [f"{at}/environment", f"{at}/jobs", f"{at}/sql?details=true&planDescription=true"]
    assert len(json.loads(_page(pages[2]))) > 0
    return [_page(address) for address in pages]


def _event_files() -> list[Path]:
    return [file for file in event_log().rglob("*") if file.is_file()]


def _event_log(before: Mapping[Path, int]) -> list[str]:
    """What the session has logged since its files were that long: no secret of ours is older."""
    logged = [file.read_bytes()[before.get(file, 0) :] for file in _event_files()]
    assert any(logged)
    return [text.decode(errors="replace") for text in logged]


def _command_lines() -> list[str]:
    lines = []
    for one in _processes():
        # Who has ended meanwhile shows nothing to anybody.
        with suppress(FileNotFoundError, ProcessLookupError):
            lines.append(Path(f"/proc/{one.pid}/cmdline").read_text())
    assert len(lines) > 1
    return lines


def _page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=120) as answer:  # noqa: S310 - Spark's own pages
        return str(answer.read().decode())


def _processes() -> list[psutil.Process]:
    ours = psutil.Process()
    return [ours, *ours.children(recursive=True)]
