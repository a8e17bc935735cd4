"""Prepared transactions as somebody has left them, in this process's databases."""

from collections.abc import Iterator

import pytest
from django.db import connections
from psycopg import sql

from integration.store.sessions import Session, raw_connection

LEDGER = "ledger"
# In this order: names are of the whole server, and so is the list of them.
_HERE = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"


def prepare(name: str, statement: str, alias: str = "") -> None:
    """Let somebody execute it in a database of ours and prepare that under a name."""
    with raw_connection("somebody", alias) as session:
        session.execute("BEGIN")
        session.execute(statement)
        session.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(name)))


def names(alias: str = "") -> list[str]:
    """What stands prepared in the database."""
    with raw_connection("somebody", alias) as session:
        return [name for (name,) in session.execute(_HERE).fetchall()]


def roll_back(alias: str = "") -> None:
    """End all that stands prepared in the database: nothing can be emptied before."""
    with raw_connection("somebody", alias) as session:
        for (name,) in session.execute(_HERE).fetchall():
            session.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(name)))


@pytest.fixture(name="ledger")
def given_ledger(transactional_db) -> Iterator[Session]:
    """Another database, of the same server, known to this process and empty."""
    with raw_connection("tests") as session:
        name = f"ledger_{session.info.dbname}"
        session.execute(f'CREATE DATABASE "{name}"')
        connections.settings[LEDGER] = {**connections.settings["default"], "NAME": name}
        with raw_connection("tests", LEDGER) as other:
            other.execute("CREATE TABLE entry (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
            yield other
            # What a failed test has left would hold up whoever empties the tables.
            roll_back()
            roll_back(LEDGER)
        del connections[LEDGER], connections.settings[LEDGER]
        session.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
