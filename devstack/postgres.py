"""PostgreSQL: made, started and asked in one way, whichever programs run it."""

import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import ClassVar

from devstack import pgwire, problems
from devstack.accounts import may_pass, own_folder, unprivileged
from devstack.overriding import override
from devstack.postgres_programs import programs_for
from devstack.server import Server
from devstack.supervise import Account, Command

DATABASE = "sluice"
SHARED_DATA = Path("/var/tmp")  # noqa: S108 - the folder below is ours alone and is checked
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # No socket file: its path has a length limit that a deep checkout would exceed.
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_prepared_transactions": "64",
}
# What a power cut would notice and SIGKILL does not: the kernel keeps what was written.
HASTY_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


class Postgres(Server):
    """The one database, with a superuser `postgres` who needs no password on loopback."""

    name: ClassVar[str] = "postgres"
    title: ClassVar[str] = "PostgreSQL"
    # Fast shutdown: does not wait for clients to leave.
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    tries: ClassVar[int] = 15

    def __init__(self, folder: Path, port: int, *, durable: bool) -> None:
        super().__init__(folder, port, durable=durable)
        self.account = unprivileged() if os.geteuid() == 0 else None
        self._place: Path | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def data(self) -> Path:
        """The data directory; outside `folder` when the server's user cannot go there."""
        if self._place is None:
            self._place = place_for(self.folder, self.account)
        return self._place / "data"

    @override
    def prepare(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        place = self.data.parent
        own_folder(place, self.account)
        # A first start that was cut short leaves a half-made directory, which initdb refuses.
        shutil.rmtree(self.data, ignore_errors=True)
        initdb = programs_for(self.data, self.account).folder / "initdb"
        options = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]
        if not self.durable:
            options.append("--no-sync")
        with self.process.log.open("ab") as log:
            made = subprocess.run(
                [initdb, "-D", self.data, *options],
                stdout=log,
                stderr=log,
                cwd=place,
                env=ENVIRONMENT,
                check=False,
                user=self.account.user if self.account else None,
                group=self.account.group if self.account else None,
                extra_groups=[] if self.account else None,
            )
        if made.returncode:
            raise problems.command_failed("Making the database's files", self.process.log)

    @override
    def command(self) -> Command:
        programs = programs_for(self.data, self.account)
        settings = SETTINGS if self.durable else {**SETTINGS, **HASTY_SETTINGS}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Command(
            argv=[programs.folder / "postgres", "-D", self.data, "-p", str(self.port), *options],
            environment=ENVIRONMENT,
            folder=self.data.parent,
            account=self.account,
        )

    @override
    def is_answering(self) -> bool:
        try:
            return pgwire.query(self.port, "SELECT 1") == ["1"]
        except (OSError, pgwire.RefusedError):
            return False

    @override
    def start(self) -> None:
        super().start()
        known = pgwire.query(self.port, "SELECT datname FROM pg_database")
        if DATABASE not in known:
            pgwire.query(self.port, f"CREATE DATABASE {DATABASE}")

    @override
    def discard(self) -> None:
        shutil.rmtree(self.data.parent, ignore_errors=True)


def place_for(folder: Path, account: Account | None) -> Path:
    """Return where the database's files go: inside `folder` if its user may pass through."""
    if account is None or all(may_pass(parent, account) for parent in folder.resolve().parents):
        return folder.resolve() / "postgres"
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return SHARED_DATA / f"sluice-{name}"
