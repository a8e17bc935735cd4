"""A worker that replaces a process of its pool that ended at once, where Celery takes 5 seconds.

`python -m tests.support.hasty_worker ARGUMENTS...`: the arguments are those of `celery`.
"""

import sys

from celery.__main__ import main as celery
from celery.concurrency.asynpool import AsynPool

LOOKS_EVERY_SECONDS = 0.2


def main() -> None:
    AsynPool.timers = property(lambda pool: {pool.maintain_pool: LOOKS_EVERY_SECONDS})
    sys.argv = ["celery", "-A", "config", *sys.argv[1:]]
    celery()


if __name__ == "__main__":
    main()
