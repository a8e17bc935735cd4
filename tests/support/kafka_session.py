"""How long a test's Kafka may be silent until its own controller gives it up.

A broker that a busy machine holds up for longer is without leaders for a while; one that was
killed serves again only when its last session is over.
"""

from dataclasses import replace

from devstack.kafka import Kafka
from devstack.overriding import override
from devstack.servers import Servers


class SessionKafka(Kafka):
    """The broker of devstack with a session of another length."""

    session_seconds: int

    @override
    def prepare(self) -> None:
        super().prepare()
        with self._properties.open("a") as file:
            # Later lines of the file win over those that devstack wrote.
            file.write(f"broker.session.timeout.ms={self.session_seconds * 1_000}\n")


def with_session(servers: Servers, seconds: int) -> Servers:
    """Describe the same set with a Kafka whose session is that long; it was not started yet."""
    plain = servers.kafka
    kafka = SessionKafka(
        plain.folder, plain.port, controller_port=plain.controller_port, durable=plain.durable
    )
    kafka.session_seconds = seconds
    return replace(servers, kafka=kafka)
