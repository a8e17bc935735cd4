"""Reads the planned offsets of a topic as rows of Spark, and names what is not there any more."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from spark_jobs.problems import JobError, Stopped
from spark_jobs.topics import jvm
from spark_jobs.topics.cluster import Cluster, Read
from spark_jobs.topics.planning import TopicPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = TypeVar("Answer")
# What one task reads: few enough that one that is tried again costs little, and never more tasks
# than the driver can hear of.
LEAST_OFFSETS: Final = 100_000
MOST_TASKS: Final = 500
# A message of its own, a marker of ours that a retry is due, or the copy of a failure.
MESSAGE: Final = 0
TICKET: Final = 1
COPY: Final = 2
# The names are those of integration.delivery.reading.
TICKET_HEADER: Final = "sluice-ticket"
COPY_HEADER: Final = "sluice-error"
# A ticket's value has no bytes: partners copy headers, and a record with a body is a message.
KIND: Final = f"""CASE
  WHEN length(value) = 0 AND exists(headers, h -> h.key = '{TICKET_HEADER}') THEN {TICKET}
  WHEN exists(headers, h -> h.key = '{COPY_HEADER}') THEN {COPY}
  ELSE {MESSAGE} END"""


def records(
    session: "SparkSession", settings: Mapping[str, str], plan: TopicPlan
) -> "DataFrame | None":
    """One row a record: key, value, topic, partition, offset, timestamp, headers; None for none.

    Rows of one partition of Spark are of one partition of the topic, in the order of their
    offsets. Raises JobError SPARK_JARS_MISSING, LOGIN_NOT_CARRIED, KAFKA_UNUSABLE.
    """
    begins = {str(part.partition): part.begin for part in plan.parts if part.begin < part.end}
    ends = {str(part.partition): part.end for part in plan.parts if part.begin < part.end}
    if not begins:
        return None
    reader = session.read.format("kafka").options(
        **jvm.options(settings),
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
    """What KIND says, of a record that was read without Spark."""
    names = [name for name, _ in record.headers]
    if record.value == b"" and TICKET_HEADER in names:
        return TICKET
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
