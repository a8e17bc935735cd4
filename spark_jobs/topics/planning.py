"""The offsets of a topic that a run reads: asked for in words, resolved once, kept for reruns.

A range that Kafka no longer has in full is refused by name, never read as far as it goes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from spark_jobs.errors import JobError
from spark_jobs.parameters import JobParameters, RunPlan
from spark_jobs.topics.cluster import Cluster, Topic
from spark_jobs.work import Work

Bound = int | datetime | Mapping[int, int] | None
"""The end of what there is, one offset for all partitions, a time, or an offset by partition."""
_PAIRS: Final = re.compile(r"\d{1,9}:\d{1,18}(?:\s*,\s*\d{1,9}:\d{1,18})*", re.ASCII)
_OFFSET: Final = re.compile(r"\d{1,18}", re.ASCII)
HOW: Final = (
    "Write a time with its zone (2026-01-31T08:00Z), an offset, or PARTITION:OFFSET pairs "
    "(0:1200,1:800)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(JobParameters):
    """A job's range of a topic as it was asked for; texts as `bound` reads them."""

    topic: str
    begin: str = ""
    end: str = ""

    def check(self) -> None:
        """Raise JobError BAD_PARAMETERS for a bound that cannot be read."""
        begin, end = bound(self.begin), bound(self.end)
        if isinstance(begin, int) and isinstance(end, int) and begin > end:
            raise _backwards()
        if isinstance(begin, datetime) and isinstance(end, datetime) and begin > end:
            raise _backwards()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of one partition that is read: from offset `begin` up to, and without, `end`."""

    partition: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan(RunPlan):
    """The range a run reads, resolved. `oldest`: partitions whose time may begin before the rest.

    Asked for by time, messages that had expired cannot be told from messages that never were.
    """

    topic: str
    uuid: str
    parts: tuple[Part, ...]
    oldest: tuple[int, ...] = ()

    @property
    def offsets(self) -> int:
        """The number of offsets in it: never fewer than records, for offsets have gaps."""
        return sum(part.end - part.begin for part in self.parts)

    @property
    def ranges(self) -> dict[str, list[int]]:
        return {str(part.partition): [part.begin, part.end] for part in self.parts}

    @property
    def facts(self) -> dict[str, Any]:
        """Return it as people and programs read it in a report."""
        return {"topic": self.topic, "ranges": self.ranges, "oldest": list(self.oldest)}

    def same(self, now: Topic) -> None:
        """Raise JobError TOPIC_REPLACED when it is another topic of that name by now."""
        if now.uuid != self.uuid:
            raise JobError(
                "TOPIC_REPLACED",
                f"The topic {self.topic} was deleted and created again since the run was planned.",
                "Ask for a new run: these offsets are other messages now.",
            )

    def check(self, now: Topic) -> None:
        """Raise unless the topic still has all of it.

        JobError TOPIC_REPLACED, RANGE_EXPIRED, RANGE_BEYOND_END.
        """
        self.same(now)
        for part in self.parts:
            _there(self.topic, part, now)


def bound(text: str) -> Bound:
    """Read one end of a range; an empty text is the end of what there is.

    >>> bound("0:1200, 1:800")
    {0: 1200, 1: 800}
    """
    text = text.strip()
    if not text:
        return None
    if _OFFSET.fullmatch(text):
        return int(text)
    if _PAIRS.fullmatch(text):
        pairs = [pair.strip().split(":") for pair in text.split(",")]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
        if len(offsets) == len(pairs):
            return offsets
        raise _bad(f"{text!r} names a partition twice")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _bad(f"{text!r} is no end of a range") from None
    if at.tzinfo is None:
        raise _bad(f"{text!r} does not say its time zone")
    return at


def plan(cluster: Cluster, wanted: Wanted) -> TopicPlan:
    """Resolve a range by what the cluster says now.

    Raises JobError: RANGE_EXPIRED, RANGE_BEYOND_END, BAD_PARAMETERS, and what the cluster raises.
    """
    now = cluster.topic(wanted.topic)
    begin, end = bound(wanted.begin), bound(wanted.end)
    partitions = _partitions(now, begin, end)
    begins = _resolved(cluster, wanted.topic, begin, {p: now.low[p] for p in partitions})
    highs = {p: now.high[p] for p in partitions}
    if isinstance(begin, datetime):
        # Where nothing was written since, nothing is read.
        begins = {**highs, **begins}
    ends = {**highs, **_resolved(cluster, wanted.topic, end, highs)}
    parts = tuple(_part(p, begins[p], ends[p], begin, end) for p in partitions)
    topic_plan = TopicPlan(
        topic=wanted.topic,
        uuid=now.uuid,
        parts=parts,
        oldest=tuple(
            part.partition
            for part in parts
            if isinstance(begin, datetime) and 0 < part.begin == now.low[part.partition] < part.end
        ),
    )
    for part in parts:
        _there(wanted.topic, part, now)
    return topic_plan


def planned(work: Work, wanted: Wanted) -> TopicPlan:
    """The plan of a run, if the topic still has all of it.

    Raises what `plan` and `TopicPlan.check` raise.
    """
    cluster = Cluster(work.arguments.kafka)
    topic_plan = work.planned(TopicPlan, partial(plan, cluster, wanted))
    if work.arguments.plan:
        topic_plan.check(cluster.topic(topic_plan.topic))
    for partition in topic_plan.oldest:
        work.tell.say(
            f"Partition {partition} begins with the oldest message that Kafka still has: whether "
            "older ones belonged to the range cannot be told any more."
        )
    return topic_plan


def _partitions(now: Topic, *bounds: Bound) -> list[int]:
    """Those that a bound names, else all of them."""
    named = [set(offsets) for offsets in bounds if isinstance(offsets, Mapping)]
    if not named:
        return sorted(now.low)
    if any(partitions != named[0] for partitions in named):
        raise _bad("begin and end name different partitions")
    unknown = sorted(named[0] - now.low.keys())
    if unknown:
        raise _bad(f"the topic has no partition {unknown[0]}")
    return sorted(named[0])


def _resolved(
    cluster: Cluster, topic: str, edge: Bound, otherwise: Mapping[int, int]
) -> dict[int, int]:
    match edge:
        case None:
            return dict(otherwise)
        case int():
            return dict.fromkeys(otherwise, edge)
        case datetime():
            return cluster.offsets_at(topic, list(otherwise), edge)
        case _:
            return dict(edge)


def _part(partition: int, begin: int, end: int, *bounds: Bound) -> Part:
    if end < begin and not any(isinstance(one, datetime) for one in bounds) and None not in bounds:
        raise _backwards()
    return Part(partition=partition, begin=begin, end=max(begin, end))


def _there(topic: str, part: Part, now: Topic) -> None:
    low, high = now.low.get(part.partition), now.high.get(part.partition)
    if low is None or high is None or part.end > high:
        raise JobError(
            "RANGE_BEYOND_END",
            f"Partition {part.partition} of {topic} ends at offset {high or 0:,}, and the range "
            f"goes on to {part.end:,}.",
            "Name an earlier end, or leave it empty for what there is now.",
        )
    if part.begin < low and part.begin < part.end:
        last = min(low, part.end) - 1
        raise JobError(
            "RANGE_EXPIRED",
            f"Offsets {part.begin:,} to {last:,} of partition {part.partition} of {topic} have "
            f"expired: the oldest that Kafka still has is {low:,}.",
            "Begin later, or leave the beginning empty for the oldest message there is.",
        )


def _backwards() -> JobError:
    return _bad("it ends before it begins")


def _bad(why: str) -> JobError:
    return JobError("BAD_PARAMETERS", f"The range cannot be read: {why}.", HOW)
