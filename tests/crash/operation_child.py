"""A runner of an operation in a process of its own that dies, or stops, where it is told to.

Arguments: operation id, step, which time it is reached, signal's name, how many messages a chunk
has. A child of `tests.support.warm`, where Django is set up.
"""

import os
import signal
import sys
from uuid import UUID

from crontasks.running import operating
from integration.store import operations

# As in life, only sooner: nobody asks for the operation before this process is dead or stopped.
operations.LEASE_SECONDS = 0.5  # type: ignore[misc]


def main() -> None:
    operation_id, step, times, name, most = sys.argv[1:]
    operating.CHUNK_ROWS = int(most)  # type: ignore[misc]
    left = int(times)

    def observe(reached: str) -> None:
        nonlocal left
        if reached == step:
            left -= 1
            if left == 0:
                sys.stdout.write("there\n")
                sys.stdout.flush()
                os.kill(os.getpid(), signal.Signals[name])

    state = operating.run_operation(UUID(operation_id), stop=lambda: None, observe=observe)
    sys.stdout.write(f"{state}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
