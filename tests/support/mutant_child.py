"""The crash tests' worker process without one safeguard: see tests.support.mutations.

`TESTS_MUTATION=NAME python -m tests.support.mutant_child QUEUE_ID STEP NTH SIGNAL`.
"""

import os

import django

from tests.support import crash_child


def main() -> None:
    django.setup()
    from tests.support.mutations import mutate  # noqa: PLC0415 - Django is set up first

    mutate(os.environ["TESTS_MUTATION"])
    crash_child.main()


if __name__ == "__main__":
    main()
