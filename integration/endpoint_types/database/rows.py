"""The statements of an endpoint in a database: a message's row, and its id that makes it once."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from integration.endpoint_types.database.properties import DatabaseProperties
from integration.endpoints.templates import KNOWN, PAYLOAD, Fields, Template, as_text

Connection = psycopg.Connection[tuple[Any, ...]]


class Rows:
    """The rows to write for a message, as the properties of an endpoint say."""

    def __init__(self, properties: DatabaseProperties) -> None:
        self._columns = {c: Template(text) for c, text in properties.columns.items()}
        self._own = properties.message_id_column
        schema = properties.schema
        self._table = sql.Identifier(schema, properties.table)
        self._ledger = sql.Identifier(schema, properties.ledger)
        self.target = f"{schema}.{properties.table}"
        self._insert = self._statement(properties)
        self._mark = sql.SQL(
            "INSERT INTO {} (message_id) VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1"
        ).format(self._ledger)
        names = {*KNOWN, PAYLOAD}
        self.needs_body = any(
            field.name not in names for column in self._columns.values() for field in column.fields
        )

    def values(self, fields: Fields) -> list[Any]:
        """A value for each column. Raises FieldMissingError for texts around a missing field."""
        return [_stored(template.value(fields)) for template in self._columns.values()]

    def write(self, connection: Connection, message_id: str, values: Sequence[Any]) -> bool:
        """Write the row unless the message id is known already. Raises psycopg.Error."""
        if self._own:
            return connection.execute(self._insert, [*values, message_id]).rowcount == 1
        if connection.execute(self._mark, [message_id]).rowcount == 0:
            return False
        connection.execute(self._insert, list(values))
        return True

    def is_there(self, connection: Connection, message_id: str) -> bool:
        """Return whether the target has the message; waits for a transaction that is writing it."""
        if not self._own:
            return connection.execute(self._mark, [message_id]).rowcount == 0
        query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(
            self._table, sql.Identifier(self._own)
        )
        # Whoever writes the table holds this lock's opposite until the end of the transaction.
        lock = sql.SQL("LOCK TABLE {} IN SHARE MODE").format(self._table)
        connection.execute(lock)
        return connection.execute(query, [message_id]).rowcount > 0

    def examine(self, connection: Connection) -> None:
        """Let the server judge the statements, without a row. Raises psycopg.Error."""
        nothing: list[Any] = [None] * (len(self._columns) + bool(self._own))
        explain = sql.SQL("EXPLAIN ")
        connection.execute(explain + self._insert, nothing)
        if not self._own:
            connection.execute(explain + self._mark, [""])

    def _statement(self, properties: DatabaseProperties) -> sql.Composed:
        columns = [*self._columns, *([self._own] if self._own else [])]
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        places = sql.SQL(", ").join(sql.Placeholder() * len(columns))
        begun = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(self._table, names, places)
        if self._own:
            conflict = sql.SQL(" ON CONFLICT ({}) DO NOTHING").format(sql.Identifier(self._own))
            return begun + conflict
        return begun + _upsert(properties) if properties.mode == "upsert" else begun


def _upsert(properties: DatabaseProperties) -> sql.Composed:
    keys = list(properties.key_columns)
    changed = [column for column in properties.columns if column not in keys]
    target = sql.SQL(", ").join(map(sql.Identifier, keys))
    if not changed:
        return sql.SQL(" ON CONFLICT ({}) DO NOTHING").format(target)
    sets = sql.SQL(", ").join(
        sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(column)) for column in changed
    )
    return sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(target, sets)


def ledger_sql(properties: DatabaseProperties) -> str:
    """The statement that makes the table by which repeats are dropped."""
    return (
        f'CREATE TABLE "{properties.schema}"."{properties.ledger}" (message_id text PRIMARY KEY, '
        "delivered_at timestamptz NOT NULL DEFAULT now());"
    )


def _stored(value: Any) -> Any:
    """Scalars as they are, so that the column's own type decides; what is nested as JSON text."""
    return as_text(value) if isinstance(value, dict | list) else value
