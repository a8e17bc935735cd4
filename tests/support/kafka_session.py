"""How long a test's Kafka may be silent until its own controller gives it up.

A broker that a busy machine holds up for longer is without leaders for a while; one that was
killed serves again only when its last session is over.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from devstack.kafka import Kafka
from devstack.overriding import override
from devstack.servers import Servers

# What a broker is told that serves one tester: most of its life it is idle, and each thread of it
# looks for work several times a second.
QUIET: Final = {"num.network.threads": "1", "num.io.threads": "1"}
# So many heartbeats in a long session: each is a request, an answer and a look at all sessions.
HEARTBEATS: Final = 20


def session_of(seconds: int) -> Mapping[str, str]:
    """Properties of a broker whose session is that long."""
    milliseconds = seconds * 1_000
    return {
        "broker.session.timeout.ms": str(milliseconds),
        "broker.heartbeat.interval.ms": str(max(milliseconds // HEARTBEATS, 1_000)),
    }


class SessionKafka(Kafka):
    """The broker of devstack with a session of another length."""

    session_seconds: int

    @override
    def prepare(self) -> None:
        super().prepare()
        properties = {**QUIET, **session_of(self.session_seconds)}
        with self._properties.open("a") as file:
            # Later lines of the file win over those that devstack wrote.
            file.writelines(f"{name}={value}\n" for name, value in properties.items())


def with_session(servers: Servers, seconds: int) -> Servers:
    """Describe the same set with a Kafka whose session is that long; it was not started yet."""
    plain = servers.kafka
    kafka = SessionKafka(
        plain.folder, plain.port, controller_port=plain.controller_port, durable=plain.durable
    )
    kafka.session_seconds = seconds
    return replace(servers, kafka=kafka)
