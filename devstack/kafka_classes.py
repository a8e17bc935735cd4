"""Makes the archive of the classes that Kafka loads, by one life of a broker of its own.

`devstack.kafka` uses it from then on; without it a broker starts all the same.
"""

import tempfile
from pathlib import Path

from devstack import ports
from devstack.kafka import CLASSES, Kafka
from devstack.overriding import override

# Java writes the archive as it ends.
WRITTEN_WITHIN_SECONDS = 60


class Archiving(Kafka):
    """The broker whose classes are archived when it ends in good order."""

    made = CLASSES.with_suffix(".new")

    @override
    def classes(self) -> list[str]:
        return [f"-XX:ArchiveClassesAtExit={self.made}", "-Xlog:disable"]


def are_ready() -> bool:
    return CLASSES.exists()


def make() -> None:
    """Make it; leave it away where the broker did not end by itself. Raises Problem."""
    with tempfile.TemporaryDirectory(prefix="sluice-classes-") as folder:
        port = ports.choose([])
        controller_port = ports.choose([port])
        broker = Archiving(Path(folder), port, controller_port=controller_port, durable=False)
        try:
            broker.start()
            ended = broker.process.stop(grace_seconds=WRITTEN_WITHIN_SECONDS)
        finally:
            broker.kill()
        if ended and broker.made.exists():
            broker.made.replace(CLASSES)
