"""The properties of an endpoint in another database."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from integration.endpoint_types import checks
from integration.endpoints.declared import (
    FIELDS,
    Ledger,
    Properties,
    Shape,
    at_once,
    declare,
    default_of,
    part,
    private_network,
    seconds,
    secret,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseProperties(Properties):
    """A row for each message, in another PostgreSQL database."""

    label: ClassVar[str] = "Database"
    about: ClassVar[str] = "Rows in another PostgreSQL database, inserted or updated by key."
    repeats: ClassVar[str] = "A database endpoint does it by itself."
    drops_repeats: ClassVar[bool] = True
    secrets_go_by = ("host", "port", "username", "sslmode", "ca_certificate")
    parts = (
        part(
            "Connection",
            "host port database username password sslmode ca_certificate private_network",
        ),
        part("Table", "schema table columns mode key_columns message_id_column ledger at_once"),
        part("Time limits", "connect_seconds statement_seconds"),
    )

    host: str = declare("Host", is_needed=True, check=checks.host)
    port: int = declare("Port", 5432, shape=Shape.NUMBER, least=1, most=65_535, is_whole=True)
    database: str = declare("Database", is_needed=True)
    username: str = declare("User", is_needed=True)
    sslmode: str = declare(
        "TLS",
        "prefer",
        shape=Shape.CHOICE,
        help="Only the last two are sure whom they talk to.",
        choices=tuple((m, m) for m in ("disable", "prefer", "require", "verify-ca", "verify-full")),
    )
    ca_certificate: str = declare(
        "CA certificates",
        shape=Shape.PEM,
        help="PEM.",
        only=("sslmode", ("verify-ca", "verify-full")),
    )
    private_network: bool = private_network()
    schema: str = declare("Schema", "public", check=checks.identifier)
    table: str = declare("Table", is_needed=True, check=checks.identifier)
    columns: Mapping[str, str] = declare(
        "Columns",
        {},
        shape=Shape.PAIRS,
        help=f"One COLUMN = FIELD a line, for example number = {{$.order.number}}. Fields are "
        f"{FIELDS}, and {{payload}}, which is all of it. What a message does not have is "
        "NULL.",
        is_needed=True,
        check=checks.columns,
    )
    mode: str = declare(
        "How rows are written",
        "insert",
        shape=Shape.CHOICE,
        help="Upsert changes the row that has the same key.",
        choices=(("insert", "Insert"), ("upsert", "Insert, or update by key")),
    )
    key_columns: list[str] = declare(  # noqa: RUF009 - a field
        "Key columns",
        [],
        shape=Shape.NAMES,
        help="Separated by commas; the table needs a unique index over exactly these.",
        is_needed=True,
        only=("mode", ("upsert",)),
        check=checks.identifiers,
    )
    message_id_column: str = declare(
        "Unique column with the message id",
        help="By it repeats are dropped. Empty: by the table of message ids.",
        only=("mode", ("insert",)),
        check=checks.identifier,
    )
    ledger: str = declare(
        "Table of message ids",
        "sluice_delivered",
        help="By it repeats are dropped. It is in the same schema; its SQL is under “Endpoints” in "
        "the documentation. Each table that is written needs one of its own.",
        check=checks.identifier,
    )
    at_once: int = at_once(
        "How many messages one transaction may hold; one that is refused is left out."
    )
    connect_seconds: float = seconds(
        "Seconds to connect", 5.0, "No connection within them counts as an outage."
    )
    statement_seconds: float = seconds(
        "Seconds for a statement", 30.0, "The target ends what takes longer."
    )
    password: str = secret("Password")

    @classmethod
    def ledger_of(cls, values: Mapping[str, Any]) -> Ledger | None:
        if values.get("message_id_column"):
            return None
        host, *more, table = (
            values.get(name) or default_of(cls, name)
            for name in ("host", "port", "database", "schema", "ledger", "table")
        )
        return Ledger((str(host).lower().rstrip("."), *more), str(table))

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> dict[str, str]:
        columns = values.get("columns", {})
        missing = [key for key in values.get("key_columns", []) if key not in columns]
        if values.get("mode") == "upsert" and missing:
            return {"key_columns": f"key_columns has {missing[0]}, which the columns do not fill."}
        own = values.get("message_id_column", "")
        if own and own in columns:
            sentence = f"{own} is filled with the message id; take it off columns."
            return {"message_id_column": sentence}
        ledger = values.get("ledger") or default_of(cls, "ledger")
        if not own and ledger == values.get("table"):
            return {"ledger": "ledger is the table itself: choose another one for the ids."}
        return {}
