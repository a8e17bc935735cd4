"""A run of a queue: the engine with its real adapters."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

from django.conf import settings
from django.db import close_old_connections, connections

from integration import log_fields
from integration.delivery.context import RunContext
from integration.delivery.garbage_collection import calm_collector
from integration.delivery.ports import Stop, never
from integration.delivery.report import Report, RunEnding
from integration.delivery.run import run
from integration.delivery.sending.call_threads import CallThreads
from integration.delivery.sending.limits import Limits
from integration.delivery.sending.sender import Sender
from integration.delivery.steps import Observer, Silent
from integration.delivery.threads import HandlerThreads
from integration.delivery.two_phase import TwoPhase
from integration.endpoint_types.opening import open_endpoint
from integration.endpoints.port import Deliverer
from integration.models import Queue
from integration.registries.schemas import schemas_for
from integration.runs import beginning
from integration.runs.branches import settle_left, two_phase_of
from integration.runs.sources import source_of
from integration.store import deployments, tallies
from integration.store.circuits import DatabaseCircuits
from integration.store.configuration import queue_with_its_own, snapshot_of
from integration.store.partition_manager import DatabasePartitionManager
from integration.store.repository import DatabaseRepository
from integration.store.sessions import django_connection
from integration.tracing import spans
from integration.worker import worker_name

MAY_NOT_ACT: Final = (
    "The database is a copy of another installation's, or was restored and waits for a decision."
)


def run_queue(
    queue_id: int,
    *,
    stop: Stop = never,
    observer: Observer | None = None,
    endpoints: Callable[[int], Deliverer] | None = None,
) -> Report:
    """Run one queue until it is drained, stopped or stuck; never raises for what messages do.

    `stop` is asked about every 200 ms and returns a reason to end (`report.YIELD` when another
    queue waits), or None. `endpoints` opens an endpoint by its id, in place of the real ones.
    Clients and sessions are made here, after any fork, and closed at the end.
    """
    observer = observer or Silent()
    two_phase = two_phase_of(queue_id, observer)
    try:
        context = build(queue_id, two_phase, stop=stop, observer=observer)
    except Queue.DoesNotExist:
        return Report().ended(RunEnding.STOPPED, "The queue was deleted.")
    with django_connection().cursor() as cursor:
        if not deployments.may_run(cursor, queue_id):
            return Report().ended(RunEnding.STOPPED, MAY_NOT_ACT)
    if not context.queue.enabled or context.queue.paused:
        return Report().ended(RunEnding.STOPPED, "The queue is paused or switched off.")
    without = beginning.hindrance(queue_id)
    if without:
        return Report().ended(RunEnding.OUTAGE, f"The queue has no position yet. {without}")
    try:
        with (
            log_fields.of_run({"queue": context.queue.name}),
            calm_collector(),
            closing(two_phase),
            sending(context, endpoints),
            threads(context),
        ):
            report = run(context)
        if report.ending is not RunEnding.LOST:  # else there is no session to tell it by
            context.tell(report.untold())
        return report
    finally:
        close_old_connections()


@contextmanager
def sending(context: RunContext, endpoints: Callable[[int], Deliverer] | None) -> Iterator[None]:
    """Let a queue that sends call its endpoints; nothing for an inbound queue."""
    if not context.queue.sends:
        yield
        return
    limits = Limits(DatabaseCircuits(), context.monotonic, context.roll)
    sender = Sender(limits, CallThreads(), endpoints or open_endpoint)
    context.send = sender.deliver
    try:
        yield
    finally:
        sender.close()


@contextmanager
def threads(context: RunContext) -> Iterator[None]:
    """Let handler transactions run side by side; no thread is made before a queue wants that."""
    threads = HandlerThreads(leave=connections.close_all)
    context.threads = threads
    try:
        yield
    finally:
        threads.close()


def build(
    queue_id: int, two_phase: TwoPhase | None = None, *, stop: Stop, observer: Observer
) -> RunContext:
    """The road of one queue on the real adapters. Raises Queue.DoesNotExist."""
    close_old_connections()
    worker = worker_name()
    row = queue_with_its_own(queue_id)
    queue = snapshot_of(row, worker=worker)
    source, receipt_of = source_of(row)
    return RunContext(
        queue=queue,
        source=source,
        repository=DatabaseRepository(queue, receipt_of, two_phase),
        manager=DatabasePartitionManager(
            queue.id,
            worker,
            queue.handler_timeout_seconds,
            workers=queue.workers,
            stop=stop,
            settle_left=settle_left,
        ),
        observer=observer,
        stop=stop,
        schemas=schemas_for(row.provider, queue.topic),
        deployment=settings.SLUICE_DEPLOYMENT,
        tracer=spans.tracer(),
        tell=partial(tallies.add, queue.id),
    )
