"""Scheduled reprocessing: releases held failures that match a filter, at a rate."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome
from crontasks.parameters import option
from integration.actions import failures
from integration.actions.errors import LateReleaseError
from integration.errors import IntegrationError
from integration.models import MessageError
from integration.policy.states import ErrorState
from integration.store.operations import IS_LATE, WITH_PLACE
from integration.store.sessions import database_now

# The longest that a worker which ends waits for this task.
_PIECE_SECONDS: Final = 0.2
_LATE: Final = RawSQL(  # noqa: S611 - constants of our own
    f"SELECT e.id FROM integration_messageerror e {WITH_PLACE} "
    f"WHERE e.state = '{ErrorState.HOLD}' AND {IS_LATE}",
    (),
)


@dataclass(frozen=True)
class ReprocessingParameters:
    """The failures to release, and how fast."""

    queue: str = option("", "Name of the queue; empty means every queue.")
    code: str = option("", "Failure code such as SERVICE_DISABLED; empty means any.")
    older_than_minutes: int = option(
        60, "Only failures whose last try is older.", least=0, most=525_600
    )
    at_most: int = option(1_000, "Releases in one run.", least=1, most=100_000)
    per_second: float = option(50.0, "Releases in a second.", least=0.1, most=10_000)
    late: bool = option(False, "Also release what its queue has passed already.")


@crontask(
    "reprocessing",
    title="Scheduled reprocessing",
    parameters=ReprocessingParameters,
    permissions=("integration.operate",),
)
class Reprocessing:
    """Releases failures in HOLD again, as an operator would.

    Each keeps its payload, its attempts and its arrival number. What somebody else moved
    meanwhile is passed over. What its queue has passed is left alone, unless `late` says otherwise.
    """

    def run(self, parameters: ReprocessingParameters, context: Context) -> Outcome:
        counts: Counter[str] = Counter()
        if not parameters.late and (late := _held(parameters).filter(pk__in=_LATE).count()):
            context.say(f"Left alone, as released they would be applied late: {late:,}.")
            counts[LateReleaseError.code] = late
        pace = Pace(parameters.per_second)
        for error_id, version in _chosen(parameters):
            if not pace.wait(context.should_stop):
                break
            counts[_release(error_id, version, parameters, context)] += 1
        return Outcome(counts=counts)


class Pace:
    """A pace of at most so many turns a second."""

    def __init__(
        self,
        per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.step_seconds = 1 / per_second
        self.clock = clock
        self.sleep = sleep
        self.next_at = clock()

    def wait(self, should_stop: Callable[[], bool]) -> bool:
        """Wait for the next turn; False if the run is to stop.

        Sleeps in short pieces: a turn may be ten seconds away when the worker ends.
        """
        while not should_stop():
            remaining = self.next_at - self.clock()
            if remaining <= 0:
                self.next_at = max(self.next_at, self.clock() - 1) + self.step_seconds
                return True
            self.sleep(min(remaining, _PIECE_SECONDS))
        return False


def matching(parameters: ReprocessingParameters) -> QuerySet[MessageError]:
    """The failures a run would release now, oldest arrival first.

    Late ones would be refused and come first in every run, with no place left for others.
    """
    held = _held(parameters) if parameters.late else _held(parameters).exclude(pk__in=_LATE)
    return held.order_by("arrival_batch", "arrival_index", "id")


def _held(parameters: ReprocessingParameters) -> QuerySet[MessageError]:
    before = database_now() - timedelta(minutes=parameters.older_than_minutes)
    held = MessageError.objects.filter(state=ErrorState.HOLD, last_failed_at__lte=before)
    if parameters.queue:
        held = held.filter(queue__name=parameters.queue)
    if parameters.code:
        held = held.filter(code=parameters.code)
    return held


def _chosen(parameters: ReprocessingParameters) -> Sequence[tuple[UUID, int]]:
    return list(matching(parameters).values_list("id", "version")[: parameters.at_most])


def _release(
    error_id: UUID, version: int, parameters: ReprocessingParameters, context: Context
) -> str:
    try:
        failures.release(
            error_id,
            version=version,
            actor=context.actor,
            reason="scheduled reprocessing",
            late=parameters.late,
        )
    except IntegrationError as e:
        context.say(f"{error_id}: {e.code}: {e.sentence}")
        return e.code
    return "RELEASED"
