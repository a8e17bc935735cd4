"""What handlers do when the retries of a message are spent: once, in the commit that holds it."""

from collections.abc import Sequence
from dataclasses import replace

from django.db import DatabaseError

from integration.delivery.calling import SWALLOWED
from integration.delivery.context import RunContext
from integration.delivery.endings import SPENDING, retry_verdict
from integration.delivery.outcome import APPLIED, Failed, Outcome
from integration.delivery.ports import LostError, UnitOfWork
from integration.delivery.unit import Unit
from integration.handlers.failures import classify
from integration.handlers.outbound import Outbound
from integration.handlers.registry import Exhausted
from integration.policy.failure import Failure
from integration.policy.retry import GiveUp


def call_hooks(
    context: RunContext,
    work: UnitOfWork,
    outbound: Outbound,
    units: Sequence[Unit],
    outcomes: Sequence[Outcome],
) -> list[Outcome]:
    """Call the hooks of those whose last retry has failed, each under a savepoint of its own.

    Returns the outcomes: with what was decided about their retries, and with another failure where
    a hook has failed. Raises LostError.
    """
    judged = list(outcomes)
    for place, (unit, outcome) in enumerate(zip(units, outcomes, strict=False)):
        if outcome is APPLIED or not isinstance(outcome, Failed):
            continue
        hook = None if unit.taker is None else unit.taker.on_exhausted
        if hook is not None and outcome.failure.kind in SPENDING:
            verdict, _ = retry_verdict(unit, context.queue, context.roll())
            failure = outcome.failure
            if isinstance(verdict, GiveUp):
                context.manager.working()
                failure = _called(hook, unit, failure, work, outbound)
            judged[place] = replace(outcome, failure=failure, verdict=verdict)
    return judged


def _called(
    hook: Exhausted, unit: Unit, failure: Failure, work: UnitOfWork, outbound: Outbound
) -> Failure:
    """Call one hook; what it wrote and published is undone when it fails."""
    if unit.message is None:
        return failure
    work.savepoint()
    mark = outbound.mark
    outbound.begin(unit.message, since=f"exhausted {unit.message.attempt}")
    problem = _problem(hook, unit, failure, work)
    if problem is None:
        return failure
    if work.is_lost():
        raise LostError(problem.text)
    work.undo()
    outbound.back(mark)
    return _both(failure, problem)


def _problem(hook: Exhausted, unit: Unit, failure: Failure, work: UnitOfWork) -> Failure | None:
    try:
        hook(unit.message, failure)
    except Exception as e:  # noqa: BLE001 - the hook is strange code, as its handler is
        return classify(e)
    if work.is_broken():
        return SWALLOWED
    try:
        work.keep()
    except DatabaseError as e:
        return classify(e)
    return None


def _both(failure: Failure, problem: Failure) -> Failure:
    """Tell of the hook's failure and of the message's, whose class it stays."""
    text = (
        f"All retries are spent, and what the handler does then has failed: {problem.code}: "
        f"{problem.text} The message itself failed with {failure.code}: {failure.text}"
    )
    detail = "\n\n".join(filter(None, (problem.detail, failure.detail)))
    return Failure(
        failure.kind, "EXHAUSTED_HOOK_FAILED", text, detail=detail, waits_for=failure.waits_for
    )
