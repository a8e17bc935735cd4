"""The main road: one run of one queue, from taking its partitions to giving them back.

Read it as a table of contents. Every line that matters is a step with a module of its own:
desk (ownership), intake (where messages come from), deliver (handlers, settlement, commit) and
watch (is it still this topic, still wanted, still ours).
"""

from collections.abc import Iterable
from typing import Final

from integration.delivery.deliver import deliver
from integration.delivery.intake import Batch, Intake
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError
from integration.delivery.report import Report, RunEnding
from integration.delivery.road import Road
from integration.delivery.steps import Step
from integration.delivery.watch import Watch

WAIT_SECONDS: Final = 0.1
ISOLATE_AFTER_UNCLEAN_ENDS: Final = 2


def run(road: Road) -> Report:
    """Work on every free partition of the queue until it is drained, stopped or stuck.

    Never raises for what a message, a handler, Kafka or a lost session did: the report's ending
    says it, and whatever was not committed is found again at the saved positions.
    """
    report = Report()
    clean = False
    try:
        held = road.desk.take()
        road.observer.step(Step.TAKEN)
        if held:
            drive(road, held, report)
        clean = report.ending is not RunEnding.LOST
    except LostError as e:
        report.ended(RunEnding.LOST, str(e))
    finally:
        road.source.close()
        road.desk.close(clean=clean)
        road.observer.step(Step.RELEASED)
    return report


def drive(road: Road, held: list[Owned], report: Report) -> Report:
    """Turn after turn: rows and records, until there is a reason to end."""
    intake, watch = Intake(road, held), Watch(road, held)
    for owned in held:
        # A marker that stands tells that the last owner died while it isolated.
        if owned.unclean_ends >= ISOLATE_AFTER_UNCLEAN_ENDS or owned.suspect_offset is not None:
            owned.isolate_until = owned.next_offset + road.queue.batch_size
            road.isolates = True
    watch.identify()
    while True:
        work(road, intake.from_heads(), held, report)
        work(road, intake.from_rows(), held, report)
        ended = watch.ending(report, drained=intake.drained)
        if ended is not None:
            return ended
        records(road, intake, watch, report)


def records(road: Road, intake: Intake, watch: Watch, report: Report) -> None:
    """One fetch: look at what Kafka said, then deliver what it gave."""
    fetched = intake.fetch(WAIT_SECONDS)
    watch.identify(fetched)
    if fetched.records:
        road.observer.step(Step.FETCHED)
        work(road, intake.from_kafka(fetched), intake.held, report)
        watch.busy()
    else:
        road.spent.clear()
    intake.pass_markers(fetched)
    if watch.mirror():
        road.observer.step(Step.MIRRORED)


def work(road: Road, batches: Iterable[Batch], held: list[Owned], report: Report) -> None:
    """Deliver batches; a partition that somebody else took is given up at once."""
    for batch in batches:
        owned = batch.owned
        delivered = (road.send or deliver)(road, owned, batch.units, report)
        road.spent = batch.units
        if delivered.fenced:
            owned.may_have_head = False
            held.remove(owned)
            continue
        if delivered.stopped:
            # A released head that meets an outage is as due as before: not again in this run.
            owned.may_have_head = False
        if owned.isolate_until is not None and owned.next_offset > owned.isolate_until:
            owned.isolate_until = None
            road.isolates = any(o.isolate_until is not None for o in held)
