"""Every switch that can stop a queue with its state, so that nobody guesses which one is off."""

from collections.abc import Iterator

from crontasks.health import flow_out, flow_work, live_processes
from crontasks.health.checks import Finding
from crontasks.models import CronInstance, CronRun
from crontasks.problems.asking import providers_away
from integration.models import Queue
from integration.selectors.delivering.senders import sends
from integration.selectors.queues.queues import Switch
from integration.selectors.queues.status import Situation


def switches(queue: Queue, people: tuple[Switch, ...]) -> tuple[Switch, ...]:
    """List what people switch, then schedule, beat, worker and cluster; asks the database alone.

    The cluster stands as it was last noticed; the flow check asks it now.
    """
    return (*people, *_around(queue))


def last_runs(queue_id: int, most: int) -> tuple[CronInstance | None, tuple[CronRun, ...]]:
    """The cron instance of the queue and its newest runs, in two queries."""
    instance = CronInstance.objects.filter(queue=queue_id).first()
    if instance is None:
        return None, ()
    return instance, tuple(instance.runs.all()[:most])


def _around(queue: Queue) -> Iterator[Switch]:
    is_outbound = queue.direction == Queue.Direction.OUTBOUND
    is_sending = sends(queue)
    yield _switch("Cron instance active", flow_work.instance(queue))
    yield _switch("Beat", flow_work.beat(queue))
    if is_outbound:
        yield _switch("Worker of the relay", live_processes.relay())
    if is_sending or not is_outbound:
        yield _switch("Worker", live_processes.worker())
    if is_sending:
        yield _switch("Channels and targets switched on", flow_out.channel(queue))
        yield _switch("Endpoint takes messages", flow_out.endpoint(queue))
    if queue.provider.is_jms:
        # Nobody asks it but the queue's own runs.
        return
    notice = providers_away().get(queue.provider.name, "")
    text = notice.partition(": ")[2] or f"{queue.provider.name}, when it was last asked."
    yield Switch("Provider reachable", text, not notice)


def _switch(title: str, found: Finding) -> Switch:
    if isinstance(found, Situation):
        return Switch(title, found.text, False)
    return Switch(title, found, True)
