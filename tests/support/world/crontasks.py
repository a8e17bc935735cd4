"""Cron tasks of the tests: one that leaves a trace of every run, and some that misbehave."""

import time
from dataclasses import dataclass
from enum import Enum

from crontasks.definitions import NoParameters, crontask
from crontasks.outcome import NOTHING, Context, Outcome
from crontasks.parameters import option


@dataclass(frozen=True)
class TraceParameters:
    seconds: float = option(0.0, "How long it works.", least=0, most=60)
    fails: bool = option(False, "Raise at the end.")
    empty: bool = option(False, "Do nothing at all.")


@crontask("trace", title="Trace", parameters=TraceParameters)
class Trace:
    """Its run's row is the trace."""

    def run(self, parameters: TraceParameters, context: Context) -> Outcome:
        if parameters.empty:
            return NOTHING
        end = time.monotonic() + parameters.seconds
        while time.monotonic() < end and not context.should_stop():
            time.sleep(0.02)
        context.say(f"worked for {parameters.seconds} s as {context.actor}")
        if parameters.fails:
            raise RuntimeError("asked to fail")
        return Outcome(counts={"ran": 1})


# None of the roles made at installation has it.
GUARDED_BY = "auth.add_group"


@crontask("guarded", title="Guarded", permissions=(GUARDED_BY,))
class Guarded:
    """Tells whose rights it has."""

    def run(self, parameters: NoParameters, context: Context) -> Outcome:
        return Outcome(text=f"for {context.user or 'nobody'}")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class TypedParameters:
    name: str = option(..., "Whose it is.")
    days: int = option(7, "How long.", least=1, most=30)
    rate: float = option(1.5, "How fast.")
    on: bool = option(True, "Whether.")
    colour: Colour = option(Colour.RED, "Which.")
    limit: int | None = option(None, "At most.", least=1)
    token: str = option("", "What lets it in.", secret=True)


@crontask("typed", title="Typed", parameters=TypedParameters)
class Typed:
    """Tells what it was given; a secret only by its length."""

    def run(self, parameters: TypedParameters, context: Context) -> Outcome:
        return Outcome(
            counts={"days": parameters.days, "token": len(parameters.token)},
            text=f"{parameters.name} {parameters.colour.value} {parameters.limit} {parameters.on}",
        )


@crontask("deaf", title="Deaf")
class Deaf:
    """Works on and on and hears nothing."""

    def run(self, parameters: NoParameters, context: Context) -> Outcome:
        while True:
            time.sleep(0.05)


@dataclass(frozen=True)
class SchedulingParameters:
    job: str = option(..., "Which bulk job.")
    job_request: str = option("{}", "What is asked for, as JSON.")


class Scheduling:
    """Takes the place of the task that asks for bulk jobs, where that is not there."""

    title = "Bulk job"
    parameters = SchedulingParameters
    asks_only = False

    def run(self, parameters: SchedulingParameters, context: Context) -> Outcome:
        return NOTHING
