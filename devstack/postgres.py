"""PostgreSQL: made, started and asked in one way, whichever programs run it.

No client is needed for that: the set-up runs before any package is installed, and psql does not
come with every server.
"""

import hashlib
import os
import shutil
import signal
from pathlib import Path
from typing import ClassVar

from devstack import errors
from devstack.accounts import may_pass, own_folder, unprivileged
from devstack.overriding import override
from devstack.postgres_programs import programs_for
from devstack.server import Server
from devstack.supervise import Account, Command, carry_out

DATABASE = "sluice"
SHARED_DATA = Path("/var/tmp")  # noqa: S108 - the folder below is ours alone and is checked
ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # No socket file: its path has a length limit that a deep checkout would exceed.
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_prepared_transactions": "128",
}
# Only a power cut would notice these, not SIGKILL: the kernel keeps what was written.
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
        # Made beside it and renamed, so that what a first start left half-made is made anew.
        half = place / "data.new"
        for left in (self.data, half):
            shutil.rmtree(left, ignore_errors=True)
        programs = programs_for(self.data, self.account).folder
        unsynced = [] if self.durable else ["--no-sync"]
        options = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", *unsynced]
        self._make(programs / "initdb", "-D", half, *options)
        alone = ("--single", "-D", half, "postgres")
        self._make(programs / "postgres", *alone, stdin=f"CREATE DATABASE {DATABASE}\n")
        half.replace(self.data)

    def _make(self, *argv: str | Path, stdin: str = "") -> None:
        if not carry_out(self._command(*argv), self.process.log, stdin):
            raise errors.command_failed("Making the database's files", self.process.log)

    def _command(self, *argv: str | Path) -> Command:
        place = self.data.parent
        return Command(argv=argv, environment=ENVIRONMENT, folder=place, account=self.account)

    @override
    def command(self) -> Command:
        postgres = programs_for(self.data, self.account).folder / "postgres"
        settings = SETTINGS if self.durable else {**SETTINGS, **HASTY_SETTINGS}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return self._command(postgres, "-D", self.data, "-p", str(self.port), *options)

    @override
    def is_answering(self) -> bool:
        """Return whether it takes connections: the server notes it in its file, as pg_ctl knows."""
        try:
            noted = (self.data / "postmaster.pid").read_text().split()
        except OSError:
            return False
        # The file of one that was killed stays: only what our process wrote counts.
        return noted[:1] == [str(self.process.pid)] and noted[-1] == "ready"

    @override
    def discard(self) -> None:
        shutil.rmtree(self.data.parent, ignore_errors=True)


def place_for(folder: Path, account: Account | None) -> Path:
    """Return where the database's files go: inside `folder` if its user may pass through."""
    if account is None or all(may_pass(parent, account) for parent in folder.resolve().parents):
        return folder.resolve() / "postgres"
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return SHARED_DATA / f"sluice-{name}"
