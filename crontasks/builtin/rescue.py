"""Rescue: copies untried messages into the database before their topic forgets them."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Final

from billiard.exceptions import SoftTimeLimitExceeded
from django.db.models import Exists, F, OuterRef, Q

from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome, RunState
from crontasks.parameters import option
from crontasks.running import outage, starts
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.kafka import looks
from integration.kafka.looks import TopicLook
from integration.models import Provider, Queue, QueuePartition
from integration.runs.rescues import Margin, Rescued, in_danger, rescue_queue
from integration.selectors.delivering.senders import AT_KAFKA, RUNS
from integration.store import deployments, rescues
from integration.store.sessions import database_now, database_time, django_connection

logger = logging.getLogger(__name__)
# The lag monitor looks every 15 s; what it saw so lately to be read to its end is in no danger.
_KNOWN_FOR: Final = timedelta(minutes=2)


@dataclass(frozen=True)
class RescueParameters:
    """How soon before they may expire messages are rescued."""

    margin_percent: float = option(
        25.0,
        "A message is rescued once less than this share of its topic's retention is left, in time "
        "or, where the topic sets retention.bytes, in size.",
        least=1,
        most=99,
    )
    most_hours: float = option(
        24.0, "By time, however long the retention is: at most so many hours.", least=0.01, most=720
    )


@crontask("rescue", title="Rescue", parameters=RescueParameters, is_noticed=True)
class Rescue:
    """Copies untried messages into the database when their topic is about to forget them.

    So it is for queues that are blocked, paused, switched off or late, up to each one's limit.
    Nothing is applied by that, and the order stays: the queue reads them from the database before
    it goes on in Kafka. What it has read is removed here.
    """

    def run(self, parameters: RescueParameters, context: Context) -> Outcome:
        margin = Margin(parameters.margin_percent / 100, parameters.most_hours * 3_600)
        look_round = _Round(margin, context)
        look_round.counts["swept"] = rescues.sweep(context.should_stop)
        for provider, queues in groupby(_candidates(), attrgetter("provider")):
            look_round.provider(provider, list(queues))
        look_round.end()
        state = RunState.FAILED if look_round.failed else RunState.DONE
        return Outcome(counts=+look_round.counts, state=state)


def _candidates() -> Sequence[Queue]:
    """Queues of which something may wait, by provider."""
    known = Q(high_watermark__lte=F("next_offset"), seen_at__gt=database_now() - _KNOWN_FOR)
    waiting = QueuePartition.objects.filter(~known | Q(queue__enabled=False), queue=OuterRef("pk"))
    queues = Queue.objects.select_related("provider").filter(
        RUNS, AT_KAFKA, Exists(waiting), rescue=True
    )
    return list(queues.order_by("provider_id", "name"))


class _Round:
    """One look at all queues; what is in danger is rescued at once."""

    def __init__(self, margin: Margin, context: Context) -> None:
        self.margin, self.context = margin, context
        self.counts: Counter[str] = Counter()
        self.endangered: list[tuple[int, int]] = []
        self.failed: list[int] = []

    def provider(self, provider: Provider, queues: Sequence[Queue]) -> None:
        as_of = database_time()
        try:
            found = looks.look(provider, [queue.topic for queue in queues])
        except IntegrationError as e:
            self._fail(provider.name, queues, f"{e.code}: {e.sentence}")
            return
        for queue in queues:
            look = found.get(queue.topic)
            if look is not None and not self.context.should_stop() and _may_run(queue):
                self._queue(queue, look, as_of)

    def _queue(self, queue: Queue, look: TopicLook, as_of: datetime) -> None:
        try:
            if rescues.note_cut(queue.pk, look.facts, as_of):
                self.context.say(f"{queue.name}: {queue.topic} lost what was rescued of it.")
            until = in_danger(queue, look, self.margin)
            self.endangered += [(queue.pk, partition) for partition in until]
            if until and not rescues.is_full(queue.pk, list(until)):
                self._count(queue, rescue_queue(queue, until, stop=self.context.should_stop))
        except IntegrationError as e:
            self._fail(queue.name, [queue], f"{e.code}: {e.sentence}")
        except SoftTimeLimitExceeded:
            raise
        except Exception as e:
            if outage.is_of_database(e):
                raise  # It is away from all the others as well.
            # A bug that one queue meets does not let the messages of the others expire.
            logger.exception("a queue's messages were not rescued", extra={"queue": queue.pk})
            self._fail(queue.name, [queue], f"{type(e).__name__}: {e}")

    def end(self) -> None:
        """Forget what stopped earlier rescues where nothing is in danger any more."""
        if not self.context.should_stop():
            rescues.forget_endings(self.endangered, self.failed)

    def _count(self, queue: Queue, done: Rescued) -> None:
        if done.disturbed:
            # The run that gave way may have found its partitions taken when it came back.
            starts.ask(queue.pk, was_mine=True)
        self.counts["rescued"] += done.report.records
        self.counts["gone"] += done.report.gone
        self.counts["busy"] += len(done.busy)
        for line in _words(queue, done):
            self.context.say(line)

    def _fail(self, name: str, queues: Sequence[Queue], reason: str) -> None:
        self.context.say(f"{name}: {reason}")
        self.failed += [queue.pk for queue in queues]


def _may_run(queue: Queue) -> bool:
    """Return whether no decision about the queue is open after a restore."""
    with django_connection().cursor() as cursor:
        return deployments.may_run(cursor, queue.pk)


def _words(queue: Queue, done: Rescued) -> Iterator[str]:
    report = done.report
    if report.records:
        yield f"{queue.name}: {so_many(report.records, 'message')}, {report.bytes:,} bytes."
    if report.gone:
        yield f"{queue.name}: {so_many(report.gone, 'offset was', 'offsets were')} gone before."
    for partition, (code, text) in report.endings.items():
        if code:
            yield f"{queue.name}[{partition}]: {code}: {text}"
    for partition in done.busy:
        yield f"{queue.name}[{partition}]: a run works on it; tried again with the next rescue."
