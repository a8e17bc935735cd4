"""The three servers as one set: on the machine for good, or private and fresh for a test."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from devstack import ports
from devstack.kafka import Kafka
from devstack.postgres import Postgres
from devstack.server import Server
from devstack.supervise import Process
from devstack.tool import side_by_side
from devstack.valkey import Valkey

PORT_NAMES = ("postgres", "valkey", "kafka", "kafka-controller")


@dataclass(frozen=True)
class Servers:
    """PostgreSQL, Valkey and Kafka in one folder, each to be started, stopped and killed alone."""

    folder: Path
    postgres: Postgres
    valkey: Valkey
    kafka: Kafka

    @property
    def database_url(self) -> str:
        return self.postgres.url

    @property
    def celery_broker_url(self) -> str:
        return self.valkey.url

    @property
    def kafka_bootstrap(self) -> str:
        return self.kafka.bootstrap

    @property
    def environment(self) -> dict[str, str]:
        """The settings by which Sluice's processes find these servers."""
        return {
            "SLUICE_DATABASE_URL": self.database_url,
            "SLUICE_CELERY_BROKER_URL": self.celery_broker_url,
            "SLUICE_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
        }

    @property
    def each(self) -> tuple[Server, ...]:
        return (self.kafka, self.postgres, self.valkey)

    def start(self, starting: Callable[[Server], None] = lambda server: server.start()) -> None:
        """Start all at the same time and return when each answers. Raises the first Problem."""
        side_by_side([partial(starting, server) for server in self.each])

    def stop(self, stopping: Callable[[Server], object] = lambda server: server.stop()) -> None:
        """Stop all at the same time. Raises the first Problem."""
        side_by_side([partial(stopping, server) for server in self.each])

    def destroy(self) -> None:
        """End all at once and remove every file of theirs."""
        self.stop(lambda server: server.kill())
        for server in self.each:
            server.discard()
        shutil.rmtree(self.folder, ignore_errors=True)


def with_security(servers: Servers) -> Servers:
    """Describe the same set with a Kafka that also asks for logins and certificates."""
    # Its packages are there only once the stack is set up.
    from devstack import secured_kafka  # noqa: PLC0415 - as the comment says

    kafka, names = servers.kafka, secured_kafka.PORT_NAMES
    alive = names if _is_alive(servers.folder, "kafka") else ()
    assigned = ports.assign(servers.folder / "ports.json", names, running=alive)
    return replace(servers, kafka=secured_kafka.secured(kafka, *(assigned[n] for n in names)))


def in_folder(folder: Path, *, durable: bool) -> Servers:
    """Describe the set that lives in `folder`, ready to be started; chooses its ports."""
    alive = [name for name in PORT_NAMES if _is_alive(folder, name)]
    assigned = ports.assign(folder / "ports.json", PORT_NAMES, running=alive)
    return _described(folder, assigned, durable=durable)


def as_left_in(folder: Path) -> Servers:
    """Describe the set that was started in `folder`, to ask after it or to stop it."""
    assigned = ports.known(folder / "ports.json", PORT_NAMES)
    return _described(folder, assigned, durable=False)


def _described(folder: Path, assigned: Mapping[str, int], *, durable: bool) -> Servers:
    return Servers(
        folder=folder,
        postgres=Postgres(folder, assigned["postgres"], durable=durable),
        valkey=Valkey(folder, assigned["valkey"], durable=durable),
        kafka=Kafka(
            folder,
            assigned["kafka"],
            controller_port=assigned["kafka-controller"],
            durable=durable,
        ),
    )


@contextmanager
def running(folder: Path, *, durable: bool) -> Iterator[Servers]:
    """Run a private set in `folder` on free ports; it and all its data end with the block.

    `durable` servers run with production's guarantees and a fully compiled Kafka: for
    benchmarks. Without it they start sooner and do not wait for the disk: for tests.
    """
    servers = in_folder(folder, durable=durable)
    try:
        servers.start()
        yield servers
    finally:
        servers.destroy()


def _is_alive(folder: Path, name: str) -> bool:
    return Process(name.removesuffix("-controller"), folder).is_alive()
