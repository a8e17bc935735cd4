"""The Celery tasks of `crontasks.tasks` by their names: who sends one does not import it."""

from typing import Final

TICK: Final = "crontasks.tasks.tick"
RUN_QUEUE: Final = "crontasks.tasks.run_queue"
RUN_OPERATION: Final = "crontasks.tasks.run_operation"
RUN_RELAY: Final = "crontasks.tasks.run_relay"
DRIVE_RUN: Final = "crontasks.tasks.drive_run"
