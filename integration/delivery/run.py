"""The main road: one run of one queue, from taking its partitions to giving them back.

Read it as a table of contents. Every line that matters is a step with a module of its own:
partition manager (ownership), fetcher (where messages come from), deliver (handlers, batch
result, commit) and watch (is it still this topic, still wanted, still ours).
"""

from collections.abc import Iterable
from typing import Final

from integration.delivery.context import RunContext
from integration.delivery.deliver import deliver
from integration.delivery.fetcher import Batch, Fetcher
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError
from integration.delivery.report import Report, RunEnding
from integration.delivery.shares import Shares
from integration.delivery.steps import Step
from integration.delivery.two_phase import InDoubtError
from integration.delivery.watch import Watch

WAIT_SECONDS: Final = 0.1
ISOLATE_AFTER_UNCLEAN_ENDS: Final = 2


def run(context: RunContext) -> Report:
    """Work on this run's share of the queue's partitions until they are drained, stopped or stuck.

    Never raises for what a message, a handler, Kafka or a lost session did: the report's ending
    says it, and whatever was not committed is found again at the saved positions.
    """
    report = Report()
    clean = False
    try:
        held = context.manager.take(context.source.assigned if context.queue.joins_group else None)
        context.observer.step(Step.TAKEN)
        if held:
            drive(context, held, report)
        clean = report.ending is not RunEnding.LOST
    except LostError as e:
        report.ended(RunEnding.LOST, str(e))
        clean = isinstance(e, InDoubtError)
    finally:
        context.source.close()
        context.manager.close(clean=clean)
        context.observer.step(Step.RELEASED)
    return report


def drive(context: RunContext, held: list[Owned], report: Report) -> Report:
    """Turn after turn: rows and records, until there is a reason to end."""
    fetcher, watch, shares = Fetcher(context, held), Watch(context, held), Shares(context, held)
    begin(context, held, watch)
    context.repository.wake_parked()
    while True:
        work(context, fetcher.from_heads(), held, report)
        work(context, fetcher.from_rows(), held, report)
        if fetcher.has_more_rows:
            watch.busy()
        ended = watch.ending(report, drained=fetcher.drained)
        if ended is not None:
            if watch.commit_rest(ended):
                context.observer.step(Step.GROUP_COMMITTED)
            return ended
        if taken := shares.balance(drained=fetcher.drained):
            begin(context, taken, watch)
        records(context, fetcher, watch, report)


def begin(context: RunContext, taken: list[Owned], watch: Watch) -> None:
    """Look, before anything is read, who died here, and at what, and at the topic itself."""
    context.take_generations(taken)
    for owned in taken:
        # A marker that stands tells that the last owner died while it isolated.
        if owned.unclean_ends >= ISOLATE_AFTER_UNCLEAN_ENDS or owned.suspect_offset is not None:
            until = owned.next_offset + context.queue.batch_size
            owned.isolate_until = until if owned.rest is None else max(until, owned.rest.until)
            context.isolates = True
    context.repository.wake_missed(everywhere=any(owned.unclean_ends for owned in taken))
    watch.identify_anew()


def records(context: RunContext, fetcher: Fetcher, watch: Watch, report: Report) -> None:
    """One fetch: look at what Kafka said, then deliver what it gave."""
    fetched = fetcher.fetch(WAIT_SECONDS)
    watch.identify(fetched)
    if fetched.records:
        context.observer.step(Step.FETCHED)
        work(context, fetcher.from_kafka(fetched), fetcher.held, report)
        watch.busy()
    else:
        context.spent.clear()
    fetcher.pass_markers(fetched)
    if watch.commit_to_group():
        context.observer.step(Step.GROUP_COMMITTED)


def work(context: RunContext, batches: Iterable[Batch], held: list[Owned], report: Report) -> None:
    """Deliver batches; a partition that is not as this run left it is given up at once."""
    for batch in batches:
        owned = batch.owned
        delivered = (context.send or deliver)(context, owned, batch.units, report)
        context.settled(batch.units)
        if delivered.fenced:
            owned.may_have_head = False
            held.remove(owned)
            if not context.manager.is_lost():
                # Where a person moved its position nobody has it: this run may take it again.
                context.manager.give_up([owned])
            continue
        batch.stopped = delivered.stopped
        if delivered.stopped:
            # A released head that meets an outage is as due as before: not again in this run.
            owned.may_have_head = False
        if owned.isolate_until is not None and owned.next_offset > owned.isolate_until:
            context.end_isolation(owned, held)
