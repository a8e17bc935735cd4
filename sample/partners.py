"""The three partners that get orders: where they are, what they count, how they are forgotten."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import connection
from psycopg import sql

FOLDER: Final = "sample"
ORDERS_FOLDER: Final = f"{FOLDER}/archive"
SUPPLIER_FOLDER: Final = f"{FOLDER}/supplier"
# The supplier's address until it has named it itself.
ADDRESS_AT_FIRST: Final = "http://127.0.0.1:8079"
ASK_SECONDS: Final = 1.0
TABLE: Final = "purchase_orders"
MAKE_TABLE: Final = f"""
    CREATE TABLE IF NOT EXISTS {TABLE} (
      message_id text PRIMARY KEY, ponum text NOT NULL, revision integer, vendor text,
      total numeric(14, 2), arrived_at timestamptz NOT NULL DEFAULT now())"""
COUNT: Final = f"SELECT count(*) FROM {TABLE}"


def supplier_address() -> str:
    """Return where the supplier's server listens, as it wrote it down; else its own default."""
    root: Path | None = settings.SLUICE_FILES_ROOT
    if root is None:
        return ADDRESS_AT_FIRST
    try:
        facts = json.loads((Path(root) / SUPPLIER_FOLDER / "partner.json").read_text())
        return str(facts["address"])
    except (OSError, ValueError, KeyError):
        return ADDRESS_AT_FIRST


def supplier_counts(address: str) -> dict[str, int] | None:
    """Ask the supplier for its own counts; None when it does not answer."""
    try:
        # The address is that of the sample's own endpoint, on this machine.
        with urllib.request.urlopen(f"{address}/counts", timeout=ASK_SECONDS) as answer:  # noqa: S310 - see above
            counts: dict[str, int] = json.loads(answer.read(10_000))
            return counts
    except (OSError, ValueError):
        return None


def archive_count() -> int | None:
    """Count the order files; None where this process cannot see the folder."""
    root: Path | None = settings.SLUICE_FILES_ROOT
    if root is None:
        return None
    folder = Path(root) / ORDERS_FOLDER
    if not folder.is_dir():
        return 0
    return sum(1 for file in folder.iterdir() if file.suffix == ".json")


def ledger_count() -> int | None:
    """Count the rows of the other database; None when it cannot be asked."""
    try:
        with _connected(database_name()) as rows:
            row = rows.execute(COUNT).fetchone()
            return None if row is None else int(row[0])
    except psycopg.Error:
        return None


def database_name() -> str:
    """The second database lies beside the first one, on the same server."""
    return f"{connection.settings_dict['NAME']}_partner"


def make_database() -> None:
    """The ledger's database with its table. Raises psycopg.Error where we may not make one."""
    name = database_name()
    with _connected("postgres") as rows:
        row = rows.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        if row is None:
            rows.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with _connected(name) as rows:
        rows.execute(MAKE_TABLE)


def forget() -> list[str]:
    """Take away what the partners have; what could not be, in words."""
    staying = []
    address = supplier_address()
    request = urllib.request.Request(f"{address}/orders", method="DELETE")  # noqa: S310 - this machine's
    with suppress(OSError), urllib.request.urlopen(request, timeout=ASK_SECONDS):  # noqa: S310 - this machine's
        pass
    root: Path | None = settings.SLUICE_FILES_ROOT
    if root is not None and (folder := Path(root) / ORDERS_FOLDER).is_dir():
        for file in folder.glob("*.json"):
            file.unlink(missing_ok=True)
    try:
        with _connected("postgres") as rows:
            name = sql.Identifier(database_name())
            rows.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
    except psycopg.Error as problem:
        staying.append(f"the database {database_name()} stays: {problem}")
    return staying


def database_properties() -> dict[str, Any]:
    """Return how an endpoint reaches the ledger's database, without the password."""
    database = connection.settings_dict
    return {
        "host": database["HOST"] or "127.0.0.1",
        "port": int(database["PORT"] or 5432),
        "database": database_name(),
        "username": database["USER"],
        "private_network": True,
        "table": TABLE,
        "columns": {
            "ponum": "{$.ponum}",
            "revision": "{$.revision}",
            "vendor": "{$.vendor}",
            "total": "{$.total}",
        },
        "message_id_column": "message_id",
    }


def database_password() -> str:
    return str(connection.settings_dict["PASSWORD"] or "")


@contextmanager
def _connected(name: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A session of its own, without transactions: a database is not made in one."""
    known = connection.settings_dict
    session = psycopg.connect(
        host=known["HOST"] or None,
        port=known["PORT"] or None,
        user=known["USER"] or None,
        password=known["PASSWORD"] or None,
        dbname=name,
        autocommit=True,
        connect_timeout=3,
    )
    try:
        yield session
    finally:
        session.close()
