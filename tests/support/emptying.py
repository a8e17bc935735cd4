"""Empties the test database after a test that commits: in milliseconds, and not in a second.

Django truncates every table and then has permissions, roles and the shipped instances made anew.
Here only tables that were written to are emptied, and what the migrations left is copied back. So
is what takes long to set up, for tests that begin with it.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest
from django.db import connection
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

SEED: Final = "seed"
# What is larger is truncated, with all that refers to it; a few rows are deleted in less time.
LARGE_BYTES: Final = 2**17

# Tables of models, and the partitions of such tables.
_TABLES: Final = """
    SELECT c.relname, pg_relation_size(c.oid)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    LEFT JOIN pg_class p ON p.oid = i.inhparent
    WHERE c.relkind = 'r' AND coalesce(p.relname, c.relname) = ANY(%s)
      AND pg_relation_size(c.oid) > 0"""

# By which transaction each table was brought back, and with how many rows: as long as these are
# all its rows, nobody has written to it.
WRITTEN: Final = "written"
_KEPT: Final = (
    "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' "
    f"AND relname <> '{WRITTEN}'"
)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """pytest-django's own fixture, and then this way of emptying."""
    flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]
    with django_db_blocker.unblock():
        remember(SEED)
    TransactionTestCase._fixture_teardown = lambda _case: empty()  # type: ignore[attr-defined]
    yield
    TransactionTestCase._fixture_teardown = flush  # type: ignore[attr-defined]


def remember(schema: str) -> None:
    """Copy what is in each table of a model into a schema of this name, which is not there yet."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
        cursor.execute(
            f"CREATE TABLE {schema}.{WRITTEN} (name text PRIMARY KEY, by xid, rows bigint)"
        )
        for name, _ in _filled(cursor):
            cursor.execute(f'CREATE TABLE {schema}."{name}" AS TABLE public."{name}"')
            if not cursor.rowcount:
                cursor.execute(f'DROP TABLE {schema}."{name}"')


def empty() -> None:
    """Bring every table of a model back to what the migrations left."""
    bring_back(SEED)


def bring_back(schema: str) -> None:
    """Bring every table of a model back to what was remembered in this schema."""
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, [schema])
        kept = [name for (name,) in cursor.fetchall()]
        same = _untouched(cursor, schema, kept)
        filled = [(name, size) for name, size in _filled(cursor) if name not in same]
        if large := [f'"{name}"' for name, size in filled if size > LARGE_BYTES]:
            cursor.execute(f"TRUNCATE {', '.join(large)} CASCADE")
            # It may have emptied some of these as well.
            same = _untouched(cursor, schema, kept)
        anew = [name for name in kept if name not in same]
        # In one transaction, and without the constraints' triggers: both sides are emptied.
        steps = ["BEGIN", "SET LOCAL session_replication_role = replica"]
        steps += [f'DELETE FROM "{name}"' for name, size in filled if size <= LARGE_BYTES]
        steps += [
            f'INSERT INTO public."{n}" OVERRIDING SYSTEM VALUE TABLE {schema}."{n}"' for n in anew
        ]
        steps += [
            f"INSERT INTO {schema}.{WRITTEN} SELECT '{n}', pg_current_xact_id()::xid, count(*) "
            f'FROM {schema}."{n}" ON CONFLICT (name) DO UPDATE '
            "SET by = excluded.by, rows = excluded.rows"
            for n in anew
        ]
        cursor.execute("; ".join([*steps, "COMMIT"]))


def _untouched(cursor: Any, schema: str, names: list[str]) -> set[str]:
    """Those of the tables whose rows are still the ones that were brought back."""
    if not names:
        return set()
    asked = " UNION ALL ".join(
        f"SELECT w.name FROM {schema}.{WRITTEN} w WHERE w.name = '{name}' "
        f'AND w.rows = (SELECT count(*) FROM public."{name}") '
        f'AND NOT EXISTS (SELECT FROM public."{name}" t WHERE t.xmin <> w.by)'
        for name in names
    )
    cursor.execute(asked)
    return {name for (name,) in cursor.fetchall()}


def _filled(cursor: Any) -> list[tuple[str, int]]:
    cursor.execute(_TABLES, [_models()])
    return list(cursor.fetchall())


@cache
def _models() -> list[str]:
    """The tables that models have; one that is not there is not found among the database's."""
    names = connection.introspection.django_table_names(only_existing=False, include_views=False)
    return list(names)
