"""Apache Kafka: one node that is broker and controller, run from the fetched jars."""

import base64
import os
import shutil
import socket
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from devstack import errors, java, paths
from devstack.keys import write_private
from devstack.overriding import override
from devstack.server import Server
from devstack.supervise import Command, carry_out

MEMORY = ["-Xms256m", "-Xmx512m"]
BENCHMARK_MEMORY = ["-Xms1g", "-Xmx1g"]
# Two seconds sooner ready on two cores, at the price of slower code later; and no figures, written
# twenty times a second, for tools that look at a JVM from outside.
QUICK_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
METADATA_REQUEST, METADATA_VERSION = 3, 4
# What is made of the jars once lies beside them, and goes when others are fetched.
JARS = paths.FETCHED / "kafka"
FEATURES = "bootstrap.checkpoint"
# The classes that a broker loads, read and checked: it starts with half the work.
CLASSES = JARS / "classes.jsa"

# A broker that was killed may register again only when its last session has expired: with
# Kafka's own nine seconds every restart after SIGKILL takes twelve. One that a busy machine holds
# up for longer than the session is without leaders until it is heard again.
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # A member that was killed is forgotten no later than in a classic group, and word of a
    # rebalance is out at once.
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    # One partition is served by one thread; four look for work three times a second.
    "group.coordinator.threads": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    # Else the controller writes twice a second that there is nothing to write.
    "metadata.max.idle.interval.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
}

LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1} %m%n
"""


class Kafka(Server):
    """Keeps Kafka's own limits (1 MB a record); creates no topic unasked."""

    name: ClassVar[str] = "kafka"
    title: ClassVar[str] = "Apache Kafka"

    def __init__(self, folder: Path, port: int, *, controller_port: int, durable: bool) -> None:
        super().__init__(folder, port, durable=durable)
        self.controller_port = controller_port
        self.room = folder / "kafka"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @override
    def prepare(self) -> None:
        self._temporary.mkdir(parents=True, exist_ok=True)
        # Rewritten at each start: the ports may be others than last time.
        plain = properties(
            port=self.port, controller_port=self.controller_port, log_dirs=self.room / "data"
        )
        text = {**plain, **self.more()}
        rows = [f"{name}={value}\n" for name, value in text.items()]
        write_private(self._properties, "".join(rows))
        (self.room / "log4j2.properties").write_text(LOGGING)
        if not (self.room / "data" / "meta.properties").exists():
            self._format()

    @override
    def command(self) -> Command:
        quick = [*MEMORY, *QUICK_START, *self.classes()]
        memory = BENCHMARK_MEMORY if self.durable else quick
        return self._java(memory, "kafka.Kafka", self._properties)

    def classes(self) -> list[str]:
        """Options by which Java takes the archived classes, if it finds that they fit.

        Its remarks on an archive that does not fit help nobody.
        """
        return [f"-XX:SharedArchiveFile={CLASSES}", "-Xlog:disable"] if CLASSES.exists() else []

    @override
    def is_answering(self) -> bool:
        return serves_clients(self.port)

    def told(self) -> list[str]:
        """Lines that tell a person more than the port; this kind has nothing more to say."""
        return []

    def more(self) -> Mapping[str, str]:
        """Properties of another kind of Kafka; they win over those of this one."""
        return {}

    @property
    def _properties(self) -> Path:
        return self.room / "server.properties"

    @property
    def _temporary(self) -> Path:
        """For the native libraries that a JVM unpacks, and leaves when it is killed."""
        return self.room / "temporary"

    def _format(self) -> None:
        """Make the storage: by Kafka's own tool the first time, then as that left it.

        The tool is a JVM of its own for two files: the ids, and the features of these jars.
        """
        features = JARS / FEATURES
        if not features.exists():
            self._format_by_tool()
            keep(self.room / "data" / FEATURES, features)
            return
        folder = self.room / "data"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(features, folder / FEATURES)
        ids = {"version": 1, "node.id": 1, "cluster.id": an_id(), "directory.id": an_id()}
        rows = [f"{name}={value}\n" for name, value in ids.items()]
        # The last one: with it the storage counts as made.
        (folder / "meta.properties").write_text("".join(rows))

    def _format_by_tool(self) -> None:
        tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", an_id()]
        command = self._java([*MEMORY, *QUICK_START], *tool, "-c", self._properties)
        if not carry_out(command, self.process.log):
            raise errors.command_failed("The formatting of Kafka's storage", self.process.log)

    def _java(self, memory: list[str], *arguments: str | Path) -> Command:
        if not JARS.exists():
            raise errors.not_set_up("Apache Kafka")
        options = [
            "-Djava.awt.headless=true",
            f"-Djava.io.tmpdir={self._temporary}",
            f"-Dlog4j2.configurationFile={self.room / 'log4j2.properties'}",
            "-cp",
            f"{JARS}/*",
        ]
        return Command(
            argv=[java.find(), *memory, *options, *arguments],
            environment=os.environ,
            folder=self.room,
        )


def properties(*, port: int, controller_port: int, log_dirs: Path) -> dict[str, str]:
    """Return the configuration of a node that is broker and controller, on loopback only."""
    clients, controller = f"127.0.0.1:{port}", f"127.0.0.1:{controller_port}"
    return {
        **PROPERTIES,
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{clients}",
        "log.dirs": str(log_dirs),
    }


def keep(made: Path, kept: Path) -> None:
    """Keep a copy of the file for the next ones who need it; it is there whole or not at all."""
    half = kept.with_suffix(f".{os.getpid()}")
    shutil.copyfile(made, half)
    half.replace(kept)


def an_id() -> str:
    """Make an id in Kafka's spelling: 16 random bytes in 22 URL-safe characters."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # The format tool would take a leading dash for an option.
        if not made.startswith("-"):
            return made


def serves_clients(port: int) -> bool:
    """Return whether a broker is there for clients.

    A listening port is not enough: the broker listens before the controller lets it serve.
    """
    try:
        return _count_brokers(port) > 0
    except (OSError, struct.error):
        return False


def _count_brokers(port: int) -> int:
    """Ask for the cluster's metadata; OSError or struct.error when no whole answer comes."""
    client = b"devstack"
    body = struct.pack("!hhih", METADATA_REQUEST, METADATA_VERSION, 1, len(client)) + client
    # An empty list of topics, and no creation of topics.
    body += struct.pack("!ib", 0, 0)
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(struct.pack("!i", len(body)) + body)
        with connection.makefile("rb") as stream:
            size = struct.unpack("!i", stream.read(4))[0]
            answer = stream.read(size)
    # Correlation id, throttle time, then the length of the array of brokers.
    brokers: int = struct.unpack("!iii", answer[:12])[2]
    return brokers
