"""PostgreSQL with a standby that streams from it, behind one address that leads to either."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import psycopg
from django.db import connection, connections

from bench.chaos.proxy import Proxy
from devstack.accounts import own_folder
from devstack.overriding import override
from devstack.postgres import Postgres
from devstack.servers import in_folder
from devstack.supervise import Command, Process
from tests.support.prepared_database import PreparedPostgres
from tests.support.servers import PREFIX

# The two wires: of clients to the database, and of the standby to its primary.
CLIENTS: Final = "database"
REPLICATION: Final = "replication"
# Nobody listens there.
NOWHERE: Final = "postgresql://postgres@127.0.0.1:1/sluice"
SOON_SECONDS: Final = 30.0
_STREAMS: Final = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
_CAUGHT_UP: Final = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()"
_CLIENTS: Final = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'sluice%'"


class Primary(PreparedPostgres):
    """The server that everybody writes to. `confirmed`: a commit waits for its standby."""

    confirmed: ClassVar[bool] = True

    @override
    def command(self) -> Command:
        wanted = {"synchronous_standby_names": "*"} if self.confirmed else {}
        return _with(super().command(), {"wal_keep_size": "256MB", **wanted})


class Unconfirmed(Primary):
    """One that tells its clients of a commit before a standby has it."""

    confirmed: ClassVar[bool] = False


class Standby(Postgres):
    """A copy of a primary that was stopped; it streams what that writes once both run."""

    def __init__(self, folder: Path, port: int, primary: Primary, follows: int) -> None:
        super().__init__(folder, port, durable=False)
        self.primary = primary
        self.follows = follows

    @override
    def prepare(self) -> None:
        if self.data.exists():
            return
        own_folder(self.data.parent, self.account)
        # Keeps the owner, who is another one where root runs the tests.
        subprocess.run(["cp", "-a", self.primary.data, self.data], check=True)
        (self.data / "standby.signal").touch()

    @override
    def command(self) -> Command:
        where = f"host=127.0.0.1 port={self.follows} user=postgres"
        # As often as that it looks for its primary again.
        settings = {"primary_conninfo": where, "wal_retrieve_retry_interval": "100ms"}
        return _with(super().command(), settings)

    def promote(self) -> None:
        """Let it take over; returns once it takes writes."""
        with psycopg.connect(self.url, autocommit=True) as session:
            assert session.execute("SELECT pg_promote()").fetchone() == (True,)


def _with(command: Command, settings: dict[str, str]) -> Command:
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return replace(command, argv=[*command.argv, *options])


@dataclass(frozen=True)
class Pair:
    """The two servers, and the address that leads to one of them."""

    primary: Primary
    standby: Standby
    proxy: Proxy

    @property
    def url(self) -> str:
        """The address of the test's database, whichever server has it."""
        return self._of_test(self.proxy.url(CLIENTS))

    def turn(self) -> None:
        """Lead to the standby from now on, whether it was promoted or not."""
        self.proxy.turn(CLIENTS, self.standby.url)

    def fail_over(self) -> None:
        """The primary dies, its standby is promoted, and the address leads there."""
        self.primary.kill()
        self.standby.promote()
        self.turn()

    def cut_off_standby(self) -> None:
        """Nothing that the primary writes from now on reaches its standby."""
        self.proxy.turn(REPLICATION, NOWHERE)
        self._wait(_STREAMS, lambda found: not found, self.primary)

    @contextmanager
    def as_default(self) -> Iterator[None]:
        """Django's default database is this one for as long as the block lasts."""
        where: dict[str, Any] = connection.settings_dict
        before = {name: where[name] for name in ("HOST", "PORT")}
        connections.close_all()
        where.update(HOST="127.0.0.1", PORT=str(self.proxy.wires[CLIENTS].port))
        try:
            yield
        finally:
            connections.close_all()
            where.update(before)

    @contextmanager
    def as_replica(self) -> Iterator[None]:
        """The standby is a database of Django's, named `replica`, as long as the block lasts."""
        # Of this thread alone, and not among the settings: Django's tests let it connect.
        replica = connection.copy(alias="replica")
        replica.settings_dict["PORT"] = str(self.standby.port)
        connections["replica"] = replica
        try:
            yield
        finally:
            replica.close()
            del connections["replica"]

    def wait_until_streaming(self) -> None:
        self._wait(_STREAMS, bool, self.primary)

    def wait_until_caught_up(self) -> None:
        """Until the standby has all that was written so far."""
        self._wait(_CAUGHT_UP, bool, self.primary)

    def session(self) -> psycopg.Connection[Any]:
        """One of the primary that is none of Django's, in the test's database."""
        return psycopg.connect(self._of_test(self.primary.url), autocommit=True)

    def wait_for_clients(self) -> None:
        """Until sessions of Sluice have come to the standby."""
        self._wait(_CLIENTS, bool, self.standby)

    @staticmethod
    def _wait(sql: str, is_so: Callable[[list[Any]], bool], server: Postgres) -> None:
        until = time.monotonic() + SOON_SECONDS
        with psycopg.connect(server.url, autocommit=True) as session:
            while not is_so(session.execute(sql).fetchall()):
                assert time.monotonic() < until, sql
                time.sleep(0.02)

    @staticmethod
    def _of_test(url: str) -> str:
        place, _, _ = url.rpartition("/")
        return f"{place}/{connection.settings_dict['NAME']}"


@contextmanager
def replicated(kind: type[Primary] = Primary) -> Iterator[Pair]:
    """A primary with its standby, streaming; both and all their data end with the block."""
    folders = [Path(tempfile.mkdtemp(prefix=PREFIX)) for _ in range(2)]
    for folder in folders:
        # Read by the sweep of tests.support.servers, if this process is killed.
        Process("owner", folder).remember(os.getpid())
        # The database runs as another user when the tests run as root, and has to come through.
        folder.chmod(0o755)
    first, second = (in_folder(folder, durable=False).postgres for folder in folders)
    primary = kind(first.folder, first.port, durable=False)
    proxy = Proxy({CLIENTS: primary.url, REPLICATION: primary.url})
    follows = proxy.wires[REPLICATION].port
    standby = Standby(second.folder, second.port, primary, follows)
    try:
        primary.prepare()
        assert primary.has_database, "without the prepared database there is nothing to copy"
        proxy.listen()
        standby.start()
        primary.start()
        pair = Pair(primary, standby, proxy)
        pair.wait_until_streaming()
        yield pair
    finally:
        if proxy.is_alive():
            proxy.end()
        for server, folder in zip((primary, standby), folders, strict=True):
            server.kill()
            server.discard()
            shutil.rmtree(folder, ignore_errors=True)
