"""A relay in a process of its own that dies, or stops, where it is told to.

Arguments: provider id/shard, step, signal's name, and any steps that have to be reached before
that one counts. It says `there` on stdout in the instant before the signal.
"""

import os
import signal
import sys

import django


def main() -> None:
    place, step, name, *behind = sys.argv[1:]
    provider_id, shard = map(int, place.split("/"))
    django.setup()
    from integration.delivery.relay.steps import RelayStep  # noqa: PLC0415 - Django is set up first
    from integration.runs.relay import run_relay  # noqa: PLC0415 - Django is set up first

    missing = set(behind)

    def observe(reached: RelayStep) -> None:
        missing.discard(reached.value)
        if reached == step and not missing:
            sys.stdout.write("there\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.Signals[name])

    end = run_relay(provider_id, shard, stop=lambda: False, observer=observe)
    sys.stdout.write(f"{end.value}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
