"""A transaction of the database and Kafka in a process of its own that dies where it is told to.

Arguments: coordinator ("atomic" or "transaction"), factory, topic, number, step, signal's name. It
writes a row named after the number and sends the number, two messages of it. It says `there` on
stdout in the instant before the signal. A child of `tests.support.warm`.
"""

import os
import signal
import sys

from integration import connections
from integration.models import ExternalSystem


def main() -> None:
    coordinator, name, topic, number, step, signal_name = sys.argv[1:]

    def observe(reached: str) -> None:
        if reached == step:
            sys.stdout.write("there\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.Signals[signal_name])

    factory = connections.lookup(name)
    factory.xa().observe(observe)
    {"atomic": by_django, "transaction": by_package}[coordinator](factory, topic, number)
    sys.stdout.write("through\n")
    sys.stdout.flush()


def by_django(factory: connections.Factory, topic: str, number: str) -> None:
    with factory.atomic() as session:
        work(session, topic, number)


def by_package(factory: connections.Factory, topic: str, number: str) -> None:
    import transaction  # noqa: PLC0415 - it costs the others a moment

    with transaction.manager as current:
        work(factory.join(transaction.manager, "default"), topic, number)
        assert current is not None


def work(session: connections.BranchSession, topic: str, number: str) -> None:
    ExternalSystem.objects.create(name=f"n-{number}")
    for part in "ab":
        session.send(topic, {"n": int(number), "part": part}, key=number)


if __name__ == "__main__":
    main()
