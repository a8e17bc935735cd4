"""A runner of an operation in a process of its own that dies, or stops, where it is told to.

Arguments: operation id, step, which time it is reached, signal's name.
"""

import os
import signal
import sys
from uuid import UUID

import django


def main() -> None:
    operation_id, step, times, name = sys.argv[1:]
    django.setup()
    from crontasks.running.operating import run_operation  # noqa: PLC0415 - Django is set up first

    left = int(times)

    def observe(reached: str) -> None:
        nonlocal left
        if reached == step:
            left -= 1
            if left == 0:
                sys.stdout.write("there\n")
                sys.stdout.flush()
                os.kill(os.getpid(), signal.Signals[name])

    state = run_operation(UUID(operation_id), stop=lambda: None, observe=observe)
    sys.stdout.write(f"{state}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
