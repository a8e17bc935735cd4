"""Containers in place of devstack's servers, for machines where a Docker daemon answers.

Wanted by SLUICE_TEST_SERVERS=docker. The set has the names and verbs of devstack.servers.Servers.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from devstack import kafka, ports, valkey
from devstack.errors import did_not_start

WANTED = "SLUICE_TEST_SERVERS"
IMAGES = {"postgres": "postgres:18", "valkey": "valkey/valkey:9", "kafka": "apache/kafka:4.3.1"}
READY_WITHIN_SECONDS = 120.0


def serve_tests(variables: Mapping[str, str], answers: Callable[[], bool]) -> bool:
    """Tell whether containers serve the tests: asked for, and a daemon is there to run them."""
    return variables.get(WANTED, "").strip().lower() == "docker" and answers()


def daemon_answers() -> bool:
    """Ask the Docker daemon for a sign of life; no daemon is an answer within half a second."""
    host = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    try:
        with _connect(host.scheme, host.path, host.hostname, host.port) as connection:
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"OK" in connection.recv(4096)
    except OSError:
        return False


class Contained:
    """One server in a container, with the verbs of devstack.server.Server."""

    def __init__(self, name: str, port: int, container: Any, answers: Callable[[], bool]) -> None:
        self.name = name
        self.port = port
        self.container = container
        self.is_answering = answers
        self._created = False

    def start(self) -> None:
        if not self._created:
            self.container.start()
            self._created = True
        elif not self.is_running():
            self._docker().start()
        until = time.monotonic() + READY_WITHIN_SECONDS
        while not self.is_answering():
            if time.monotonic() > until:
                raise did_not_start(self.name, Path(f"docker logs {self._docker().id}"), "")
            time.sleep(0.1)

    def stop(self) -> None:
        self._docker().stop()

    def kill(self) -> None:
        self._docker().kill("SIGKILL")

    def pause(self) -> None:
        self._docker().pause()

    def resume(self) -> None:
        self._docker().unpause()

    def is_running(self) -> bool:
        docker = self._docker()
        docker.reload()
        return docker.status in {"running", "paused"}

    def remove(self) -> None:
        if self._created:
            self.container.stop(force=True, delete_volume=True)

    def _docker(self) -> Any:
        return self.container.get_wrapped_container()


@dataclass(frozen=True)
class ContainedServers:
    """The three servers in containers, on fixed loopback ports so that a restart keeps them."""

    folder: Path
    postgres: Contained
    valkey: Contained
    kafka: Contained

    @property
    def database_url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.postgres.port}/sluice"

    @property
    def celery_broker_url(self) -> str:
        return f"redis://127.0.0.1:{self.valkey.port}/0"

    @property
    def kafka_bootstrap(self) -> str:
        return f"127.0.0.1:{self.kafka.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SLUICE_DATABASE_URL": self.database_url,
            "SLUICE_CELERY_BROKER_URL": self.celery_broker_url,
            "SLUICE_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
        }

    @property
    def each(self) -> tuple[Contained, ...]:
        return (self.kafka, self.postgres, self.valkey)

    def start(self) -> None:
        for server in self.each:
            server.start()

    def destroy(self) -> None:
        for server in self.each:
            server.remove()


def in_containers(folder: Path) -> ContainedServers:
    """Describe the set; nothing is started."""
    assigned = ports.assign(folder / "ports.json", ["postgres", "valkey", "kafka"])
    return ContainedServers(
        folder=folder,
        postgres=_postgres(assigned["postgres"]),
        valkey=_valkey(assigned["valkey"]),
        kafka=_kafka(assigned["kafka"]),
    )


def _postgres(port: int) -> Contained:
    settings = "-c max_prepared_transactions=64 -c max_connections=200 -c fsync=off"
    made = (
        _container("postgres", 5432, port)
        .with_env("POSTGRES_HOST_AUTH_METHOD", "trust")
        .with_env("POSTGRES_DB", "sluice")
        .with_command(f"postgres {settings}")
    )
    return Contained("PostgreSQL", port, made, lambda: _selects(port))


def _valkey(port: int) -> Contained:
    made = _container("valkey", 6379, port).with_command("valkey-server --appendonly yes")
    return Contained("Valkey", port, made, lambda: valkey.answers_ping(port))


def _kafka(port: int) -> Contained:
    made = _container("kafka", port, port)
    properties = kafka.properties(
        port=port, controller_port=9093, log_dirs=Path("/var/lib/kafka/data")
    )
    for name, value in properties.items():
        made = made.with_env(f"KAFKA_{name.upper().replace('.', '_')}", value)
    # Inside its container it has to listen on every address; the host's port is loopback only.
    made = made.with_env(
        "KAFKA_LISTENERS", f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:9093"
    )
    return Contained("Apache Kafka", port, made, lambda: kafka.serves_clients(port))


def _container(name: str, inside: int, port: int) -> Any:
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - asks for its daemon

    made: Any = DockerContainer(IMAGES[name])
    # with_bind_ports() would publish it on every address of the machine.
    made.ports[f"{inside}/tcp"] = ("127.0.0.1", port)
    return made


def _selects(port: int) -> bool:
    try:
        with psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/sluice", connect_timeout=2):
            return True
    except psycopg.Error:
        return False


def _connect(scheme: str, path: str, host: str | None, port: int | None) -> socket.socket:
    if scheme == "unix":
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(0.5)
            connection.connect(path)
        except OSError:
            connection.close()
            raise
        return connection
    return socket.create_connection((host or "127.0.0.1", port or 2375), timeout=0.5)
