"""Reads the planned offsets of a topic as rows of Spark, and names what is not there any more."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from spark_jobs.errors import JobError, Stopped
from spark_jobs.topics.cluster import Cluster, Read
from spark_jobs.topics.jvm import java_settings
from spark_jobs.topics.planning import TopicPlan
from spark_jobs.watching import Answer, raise_refusal
from spark_jobs.work import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What one task reads: few enough that one that is tried again costs little, and never more tasks
# than the driver can hear of.
LEAST_OFFSETS: Final = 100_000
MOST_TASKS: Final = 500
# A message of its own, a marker of ours that a retry is due, or the copy of a failure.
MESSAGE: Final = 0
RETRY_MARKER: Final = 1
COPY: Final = 2
# The names are those of integration.delivery.reading.
RETRY_MARKER_HEADER: Final = "sluice-ticket"
COPY_HEADER: Final = "sluice-error"
# A retry marker has no bytes: partners copy headers, and a record with a body is a message.
KIND: Final = f"""CASE
  WHEN length(value) = 0 AND exists(headers, h -> h.key = '{RETRY_MARKER_HEADER}')
    THEN {RETRY_MARKER}
  WHEN exists(headers, h -> h.key = '{COPY_HEADER}') THEN {COPY}
  ELSE {MESSAGE} END"""


def records(
    session: "SparkSession", settings: Mapping[str, str], plan: TopicPlan
) -> "DataFrame | None":
    """One row a record: key, value, topic, partition, offset, timestamp, headers; None for none.

    Rows of one partition of Spark are of one partition of the topic, in the order of their
    offsets. Raises JobError SPARK_JARS_MISSING, KAFKA_UNUSABLE.
    """
    begins = {str(part.partition): part.begin for part in plan.parts if part.begin < part.end}
    ends = {str(part.partition): part.end for part in plan.parts if part.begin < part.end}
    if not begins:
        return None
    reader = session.read.format("kafka").options(
        **{f"kafka.{name}": value for name, value in java_settings(settings).items()},
        **{
            "assign": json.dumps({plan.topic: [int(partition) for partition in begins]}),
            "startingOffsets": json.dumps({plan.topic: begins}),
            "endingOffsets": json.dumps({plan.topic: ends}),
            "maxRecordsPerPartition": str(offsets_a_task(plan)),
            "includeHeaders": "true",
            "groupIdPrefix": "sluice-bulk",
            # Nothing is read as far as it goes: what is missing fails the run, and is named.
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
            "kafka.allow.auto.create.topics": "false",
        },
    )
    try:
        return reader.load()
    except Exception as e:
        if "kafka" not in str(e).lower() or "find" not in str(e).lower():
            raise
        raise JobError(
            "SPARK_JARS_MISSING",
            "This Spark has no connector for Kafka.",
            "Fetch the pinned jars with `python -m devstack setup --spark`, or name their folder.",
        ) from e


def kind_of(record: Read) -> int:
    """Return what KIND says, of a record that was read without Spark."""
    names = [name for name, _ in record.headers]
    if record.value == b"" and RETRY_MARKER_HEADER in names:
        return RETRY_MARKER
    return COPY if COPY_HEADER in names else MESSAGE


def offsets_a_task(plan: TopicPlan) -> int:
    return max(LEAST_OFFSETS, -(-plan.offsets // MOST_TASKS))


def kept(cluster: Cluster, plan: TopicPlan, act: Callable[[], Answer]) -> Answer:
    """Return what reading the plan returns; where it fails, look whether the range is still there.

    Raises JobError RANGE_EXPIRED, TOPIC_REPLACED, RANGE_BEYOND_END, else what the act raised. What
    was read is of the planned topic only if that is still the same afterwards.
    """
    try:
        answer = act()
    except (JobError, Stopped):
        raise
    except Exception:
        plan.check(cluster.topic(plan.topic))
        raise
    plan.same(cluster.topic(plan.topic))
    return answer


def in_shares(
    work: Work,
    plan: TopicPlan,
    stage: str,
    columns: Sequence[str],
    act: Callable[[int, Iterator[Any]], Answer],
    *,
    so_far: Callable[[], tuple[int, int]],
) -> Sequence[Answer]:
    """Return what tasks make of a plan's records: each of its share's rows, and its number.

    Raises what is refused in them, and what `records` and `kept` raise.
    """
    frame = records(work.session, work.arguments.kafka, plan)
    if frame is None:
        return ()

    def task(number: int, rows: Iterable[Any]) -> Iterator[Answer | JobError]:
        try:
            yield act(number, iter(rows))
        except JobError as e:
            yield e

    shares = frame.selectExpr(*columns).rdd
    total, collect = shares.getNumPartitions(), shares.mapPartitionsWithIndex(task).collect
    cluster = Cluster(work.arguments.kafka)
    answers = kept(cluster, plan, lambda: work.watched(stage, total, collect, so_far))
    raise_refusal(answers)
    return [answer for answer in answers if not isinstance(answer, JobError)]


def look(cluster: Cluster, plan: TopicPlan) -> Iterator[Read]:
    """The records of a plan as a plain client reads them, until nobody asks on."""
    begin = {part.partition: part.begin for part in plan.parts}
    end = {part.partition: part.end for part in plan.parts}
    return cluster.read(plan.topic, begin, end)
