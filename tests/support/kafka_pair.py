"""A second broker beside a test's Kafka, for topics that live on it alone and die with it."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from devstack.kafka import Kafka, an_id
from devstack.overriding import override
from tests.support.kafka_session import QUIET, session_of

NUMBER = 2


class SecondKafka(Kafka):
    """A broker without a controller of its own, which joins the cluster of another."""

    first: Kafka
    session_seconds: int

    @override
    def more(self) -> Mapping[str, str]:
        return {
            "process.roles": "broker",
            "node.id": str(NUMBER),
            "controller.quorum.voters": f"1@127.0.0.1:{self.first.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            **QUIET,
            **session_of(self.session_seconds),
        }

    @override
    def _format(self) -> None:
        left = (self.first.room / "data" / "meta.properties").read_text().splitlines()
        cluster = next(line for line in left if line.startswith("cluster.id="))
        rows = ["version=1", f"node.id={NUMBER}", cluster, f"directory.id={an_id()}"]
        folder = self.room / "data"
        folder.mkdir(exist_ok=True)
        (folder / "meta.properties").write_text("".join(f"{row}\n" for row in rows))


def second_beside(first: Kafka, folder: Path, port: int, session_seconds: int) -> SecondKafka:
    """Describe it; it was not started yet."""
    second = SecondKafka(folder, port, controller_port=first.controller_port, durable=False)
    second.first, second.session_seconds = first, session_seconds
    return second


def topic_on(
    first: Kafka,
    name: str,
    brokers: Sequence[int],
    settings: Mapping[str, str] = MappingProxyType({}),
    seconds: float = 60.0,
) -> None:
    """Make a topic of which these brokers have the copies, once they are let serve."""
    admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
    deadline = time.monotonic() + seconds
    while True:
        new = NewTopic(name, 1, replica_assignment=[list(brokers)], config=dict(settings))
        made = admin.create_topics([new])
        try:
            made[name].result(20)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return
