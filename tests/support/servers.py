"""The real servers the tests run on: one private set a session, started by the first who asks."""

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection, connections

from config.celery import app
from devstack import beside
from devstack.server import Server
from devstack.servers import Servers, as_left_in, in_folder
from devstack.supervise import Process
from integration.http_api import pace
from tests.support import docker, prepared_database
from tests.support.kafka_session import with_session
from tests.support.prepared_database import PreparedPostgres

PREFIX = "sluice-tests-"
# Nobody kills this Kafka, and no test is to meet an outage that it did not make.
KAFKA_SESSION_SECONDS = 60
KAFKA_LOG_CHARACTERS = 4_000


@pytest.fixture(scope="session")
def unstarted_servers() -> Iterator[Servers]:
    """The session's set, none of it started; for fixtures that need one server only."""
    sweep_leftovers(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    # The database runs as another user when the tests run as root, and has to come through.
    folder.chmod(0o755)
    Process("owner", folder).remember(os.getpid())
    in_docker = docker.serve_tests(os.environ, docker.daemon_answers)
    # Both kinds of set have the same names and verbs; the tests know one type only.
    described: Any = (docker.in_containers if in_docker else _on_this_machine)(folder)
    yield described
    described.destroy()


@pytest.fixture(scope="session")
def postgres(unstarted_servers: Servers) -> Server:
    """PostgreSQL alone, running; Django's connections point at it."""
    started = unstarted_servers.postgres
    started.start()
    os.environ["SLUICE_DATABASE_URL"] = unstarted_servers.database_url
    point_django_at(unstarted_servers.database_url)
    return started


@pytest.fixture(scope="session")
def kafka(unstarted_servers: Servers) -> Server:
    """Kafka alone, running; the settings and child processes find it."""
    started = unstarted_servers.kafka
    started.start()
    os.environ["SLUICE_KAFKA_BOOTSTRAP"] = unstarted_servers.kafka_bootstrap
    settings.SLUICE_KAFKA_BOOTSTRAP = unstarted_servers.kafka_bootstrap
    return started


@pytest.fixture(scope="session")
def valkey(unstarted_servers: Servers) -> Server:
    """Valkey alone, running; Celery sends its messages there."""
    started = unstarted_servers.valkey
    started.start()
    os.environ["SLUICE_CELERY_BROKER_URL"] = unstarted_servers.celery_broker_url
    settings.SLUICE_CELERY_BROKER_URL = unstarted_servers.celery_broker_url
    point_celery_at(unstarted_servers.celery_broker_url)
    # What is counted there is counted once, on a busy machine as well.
    pytest.MonkeyPatch().setattr(pace, "PATIENCE_SECONDS", 10.0)
    return started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails on Kafka shows what Kafka said last; its files go with the tester."""
    report = yield
    broker = getattr(item, "funcargs", {}).get("servers")
    if report.failed and broker is not None and (said := _last_lines(broker.kafka)):
        report.sections.append(("Kafka's last lines", said))
    return report


def _last_lines(server: Any) -> str:
    """Of its log, where it is a process of this machine."""
    log = getattr(getattr(server, "process", None), "log", None)
    return "" if log is None or not log.exists() else log.read_text()[-KAFKA_LOG_CHARACTERS:]


def point_celery_at(url: str) -> None:
    """Send there from now on, as a new process would: connections that are open are forgotten.

    Celery's pool keeps the address of its first message, whatever the setting says since.
    """
    app.conf.update(broker_url=url)
    app._after_fork()


@contextmanager
def celery_at(url: str) -> Iterator[None]:
    """Another Celery broker for a while."""
    before = app.conf.broker_url
    point_celery_at(url)
    try:
        yield
    finally:
        point_celery_at(before)


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, unstarted_servers: Servers) -> Servers:
    """All three, running.

    A test that kills one starts it again before it ends and closes Django's connections; one
    that can do without these very servers better runs a set of its own (devstack.servers.running).
    Who kills Kafka always does: see KAFKA_SESSION_SECONDS.
    """
    unstarted_servers.start()
    for name in ("postgres", "kafka", "valkey"):
        request.getfixturevalue(name)
    return unstarted_servers


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: Server) -> None:
    """pytest-django's own hook: whoever asks for the database gets a running PostgreSQL."""
    prepared_database.use(postgres)


@pytest.fixture
def child_environment(servers: Servers) -> dict[str, str]:
    """What a child process needs to work on the very database and servers of this test."""
    return environment_of(servers)


def environment_of(servers: Servers) -> dict[str, str]:
    """The same for those that serve all tests of a file."""
    url = urlsplit(servers.database_url)
    database = url._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    return {
        **os.environ,
        **servers.environment,
        "SLUICE_DATABASE_URL": database,
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }


def _on_this_machine(folder: Path) -> Servers:
    plain = in_folder(folder, durable=False)
    postgres = PreparedPostgres(folder, plain.postgres.port, durable=False)
    return with_session(replace(plain, postgres=postgres), KAFKA_SESSION_SECONDS)


def point_django_at(database_url: str) -> None:
    """Give Django's default database another host and port; no connection may be open yet."""
    url = urlsplit(database_url)
    place = {"HOST": url.hostname, "PORT": str(url.port), "USER": url.username}
    connections.settings["default"].update(place, PASSWORD=url.password or "")


def sweep_leftovers(folder: Path) -> None:
    """End the sets of test runs that were killed before they could do it themselves."""
    for left in folder.glob(f"{PREFIX}*"):
        owner = Process("owner", left)
        if owner.pid_file.exists() and not owner.is_alive():
            for each in beside.EVERY:
                each.as_left_in(left).kill()
            as_left_in(left).destroy()
