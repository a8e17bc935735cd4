"""The private servers of one call of the benchmarks, and a fresh database for each of them."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg

from bench.rig import BenchmarkError, Rig
from devstack import paths, servers
from devstack.app import App
from devstack.servers import Servers

INTEGRATION: Final = "bench.app"
# Valkey has sixteen databases; each rig gets one, so that no Celery task of an earlier one is left.
BROKER_DATABASES: Final = 16


@dataclass
class Ground:
    """Running servers with production's guarantees, and a migrated database to copy from."""

    servers: Servers
    folder: Path
    quick: bool
    environment: dict[str, str]
    _made: int = field(default=0)

    @contextmanager
    def rig(self, name: str) -> Iterator[Rig]:
        """A fresh database and an empty broker for one benchmark; its processes end with it."""
        self._made += 1
        database = f"{name}_{self._made}"
        with psycopg.connect(self.servers.database_url, autocommit=True) as session:
            session.execute(f'CREATE DATABASE "{database}" TEMPLATE sluice_template')
        url = urlsplit(self.servers.database_url)._replace(path=f"/{database}").geturl()
        broker = urlsplit(self.servers.celery_broker_url)
        number = self._made % BROKER_DATABASES
        folder = self.folder / database
        folder.mkdir()
        rig = Rig(
            folder=folder,
            database_url=url,
            broker_url=broker._replace(path=f"/{number}").geturl(),
            bootstrap=self.servers.kafka_bootstrap,
            inherited=self.environment,
        )
        try:
            yield rig
        finally:
            rig.close()


@contextmanager
def prepared(*, quick: bool, integrations: str = INTEGRATION) -> Iterator[Ground]:
    """Start the servers, migrate a template database, and remove everything at the end.

    `integrations` are the apps with handlers.
    """
    folder = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    # The database runs as another user when we run as root, and has to come through.
    folder.chmod(0o755)
    try:
        with servers.running(folder / "servers", durable=True) as running:
            app = App(folder / "app", running)
            environment = {**app.environment(), "SLUICE_INTEGRATIONS": integrations}
            _tell_commit_times(running)
            _make_template(running, environment)
            yield Ground(servers=running, folder=folder, quick=quick, environment=environment)
    except BenchmarkError:
        # It says where the logs are.
        os.environ["BENCH_KEEP"] = "1"
        raise
    finally:
        if "BENCH_KEEP" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


def _tell_commit_times(running: Servers) -> None:
    """Let the database keep each transaction's commit time: the fact that all figures rest on."""
    with psycopg.connect(running.database_url, autocommit=True) as session:
        session.execute("ALTER SYSTEM SET track_commit_timestamp = on")
    running.postgres.stop()
    running.postgres.start()


def _make_template(running: Servers, environment: dict[str, str]) -> None:
    with psycopg.connect(running.database_url, autocommit=True) as session:
        session.execute("CREATE DATABASE sluice_template")
    url = urlsplit(running.database_url)._replace(path="/sluice_template").geturl()
    subprocess.run(
        [paths.python(), "manage.py", "migrate", "--noinput", "--verbosity", "0"],
        cwd=paths.ROOT,
        env={**environment, "SLUICE_DATABASE_URL": url},
        check=True,
    )
