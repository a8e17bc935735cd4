"""A driver of several bulk runs at once, for crash tests: one SIGKILL ends each at its own step.

A driver for each step would start a JVM for each, and that costs more than all the runs.
`python -m tests.support.bulk_child PIPE TASKS`: out of the pipe it reads ids of runs, and drives
each in a thread, as `manage.py bulk_run` drives one. Spark does so many tasks at a time.
"""

import sys
import threading
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import django


def main(pipe: str, tasks: str) -> None:
    django.setup()
    from crontasks.bulk import driving  # noqa: PLC0415 - Django is set up first
    from integration.worker import worker_name  # noqa: PLC0415 - as above
    from spark_jobs.session import open_session  # noqa: PLC0415 - as above

    open_session(replace(driving.session_settings(), master=f"local[{tasks},4]"))
    with Path(pipe).open() as runs:
        for run in runs:
            threading.Thread(
                target=driving.drive,
                args=(UUID(run.strip()),),
                kwargs={"owner": worker_name()},
                daemon=True,
            ).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
