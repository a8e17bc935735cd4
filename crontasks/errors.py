"""Mistakes in a cron task's settings, as errors for the person who writes them."""

from collections.abc import Sequence
from datetime import datetime

from integration.errors import IntegrationError


class BadScheduleError(IntegrationError):
    """The schedule's text is not one Sluice can follow."""

    code = "BAD_SCHEDULE"

    def __init__(self, why: str) -> None:
        super().__init__(
            why,
            next_step="Write five fields: minute, hour, day of month, month, day of week; "
            "for example `30 2 * * mon-fri` for 02:30 on working days.",
        )


class BadParametersError(IntegrationError):
    """The parameters of an instance do not fit its cron task; lists every mistake."""

    code = "BAD_PARAMETERS"

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__(" ".join(mistakes), next_step="Correct the parameters and save again.")
        self.mistakes = list(mistakes)


class UnknownCronTaskError(IntegrationError):
    """An instance names a cron task that no installed app registers."""

    code = "UNKNOWN_CRON_TASK"

    def __init__(self, *, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"No installed app registers a cron task named {name!r}.",
            next_step=f"Known here are: {', '.join(known) or 'none'}.",
        )


class CronTaskConflictError(IntegrationError):
    """Two classes claim one cron-task name."""

    code = "CRON_TASK_CONFLICT"

    def __init__(self, *, name: str, first: str, second: str) -> None:
        super().__init__(
            f"Both {first} and {second} are registered as cron task {name!r}.",
            next_step="Rename one of them.",
        )


class RunAsRefusedError(IntegrationError):
    """The user whose rights a cron task runs with may not have it done."""

    code = "RUN_AS_REFUSED"

    def __init__(self, *, user: str, why: str) -> None:
        super().__init__(
            f"Nothing was done: it runs with the rights of {user or 'a user'}, {why}.",
            next_step="Give the user the right, or choose another one in the cron task's form.",
        )


class WorkersUnreachableError(IntegrationError):
    """The broker of Celery does not answer, so no worker can be asked."""

    code = "WORKERS_UNREACHABLE"

    def __init__(self) -> None:
        super().__init__(
            "No worker could be asked: the broker of Celery does not answer.",
            next_step="Start it again; the schedules then continue by themselves.",
        )


class RunUnderWayError(IntegrationError):
    """The run before is at work, and the instance's rule is to skip a second one."""

    code = "RUN_UNDER_WAY"

    def __init__(self, *, name: str, since: datetime) -> None:
        super().__init__(
            f"{name} has been running since {since:%H:%M:%S} UTC, and its rule is to skip a second "
            "run, so no run was requested.",
            next_step="Wait for its end, or set the rule to run both.",
        )


class InstanceNeededError(IntegrationError):
    """The instance is what consumes a queue; without it nothing would read the queue."""

    code = "INSTANCE_NEEDED"

    def __init__(self, *, queue: str) -> None:
        super().__init__(
            f"This schedule is what consumes the queue {queue}, so it was not deleted.",
            next_step="Pause it or the queue, or delete the queue: the schedule goes with it.",
        )


class SimulationTooLongError(IntegrationError):
    """Counting what a cleanup would remove took too long and was stopped."""

    code = "SIMULATION_TOO_LONG"

    def __init__(self) -> None:
        super().__init__(
            "Counting took longer than twenty seconds and was stopped, to spare the database.",
            next_step="Try again at a quieter time; the run itself works in small portions.",
        )


class ConsumerStalledError(IntegrationError):
    """A worker takes no Celery tasks, though the broker answers."""

    code = "CONSUMER_STALLED"

    def __init__(self) -> None:
        super().__init__(
            "This worker takes no Celery tasks, though the broker answers; so it ends.",
            next_step="Start it again, unless something watches over it and does.",
        )


class LeaderStandsStillError(IntegrationError):
    """A leader does nothing, and its session cannot be ended; so nobody else leads."""

    code = "LEADER_STANDS_STILL"

    def __init__(self) -> None:
        super().__init__(
            "The process that leads stands still, and this one may not end its session to lead.",
            next_step="Restart the one that leads. Let all processes use one role of the database.",
        )


class NoticeOverError(IntegrationError):
    """What a person wanted to acknowledge is over already."""

    code = "NOTICE_OVER"

    def __init__(self, *, title: str, subject: str) -> None:
        super().__init__(
            f"The notice “{title}” about {subject} is over; nothing was changed.",
            next_step="Nothing is to be done about it.",
        )
