"""The properties of an endpoint in another database."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from integration.endpoint_types import checks
from integration.endpoints.declared import (
    FIELDS,
    PRIVATE_NETWORK,
    Declared,
    Properties,
    Shape,
    at_once,
    declare,
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
    parts = (
        (
            "Connection",
            (
                "host",
                "port",
                "database",
                "username",
                "password",
                "sslmode",
                "ca_certificate",
                "private_network",
            ),
        ),
        (
            "Table",
            ("schema", "table", "columns", "mode", "key_columns", "message_id_column", "at_once"),
        ),
        ("Time limits", ("connect_seconds", "statement_seconds")),
    )

    host: str = declare("", Declared(label="Host", is_needed=True, check=checks.host))
    port: int = declare(
        5432, Declared(shape=Shape.NUMBER, label="Port", least=1, most=65_535, is_whole=True)
    )
    database: str = declare("", Declared(label="Database", is_needed=True))
    username: str = declare("", Declared(label="User", is_needed=True))
    sslmode: str = declare(
        "prefer",
        Declared(
            shape=Shape.CHOICE,
            label="TLS",
            help="Only the last two are sure whom they talk to.",
            choices=tuple(
                (m, m) for m in ("disable", "prefer", "require", "verify-ca", "verify-full")
            ),
        ),
    )
    ca_certificate: str = declare(
        "",
        Declared(
            shape=Shape.PEM,
            label="Certificates of the authority",
            help="PEM.",
            only=("sslmode", ("verify-ca", "verify-full")),
        ),
    )
    private_network: bool = declare(False, PRIVATE_NETWORK)
    schema: str = declare("public", Declared(label="Schema", check=checks.identifier))
    table: str = declare("", Declared(label="Table", is_needed=True, check=checks.identifier))
    columns: Mapping[str, str] = declare(
        {},
        Declared(
            shape=Shape.PAIRS,
            label="Columns",
            help=f"One COLUMN = FIELD a line, for example number = {{$.order.number}}. Fields are "
            f"{FIELDS}, and {{payload}}, which is all of it. What a message does not have is "
            "NULL.",
            is_needed=True,
            check=checks.columns,
        ),
    )
    mode: str = declare(
        "insert",
        Declared(
            shape=Shape.CHOICE,
            label="How rows are written",
            help="Upsert changes the row that has the same key.",
            choices=(("insert", "Insert"), ("upsert", "Insert, or update by key")),
        ),
    )
    key_columns: list[str] = declare(  # noqa: RUF009 - a field
        [],
        Declared(
            shape=Shape.NAMES,
            label="Key columns",
            help="Separated by commas; the table needs a unique index over exactly these.",
            is_needed=True,
            only=("mode", ("upsert",)),
            check=checks.identifiers,
        ),
    )
    message_id_column: str = declare(
        "",
        Declared(
            label="Unique column with the message id",
            help="By it repeats are dropped. Empty: by the table sluice_delivered beside the "
            "target, which docs/endpoints.md gives the SQL of.",
            only=("mode", ("insert",)),
            check=checks.identifier,
        ),
    )
    at_once: int = declare(
        1, at_once("How many messages one transaction may hold; one that is refused is left out.")
    )
    connect_seconds: float = declare(
        5.0, seconds("Seconds to connect", "No connection within them counts as an outage.")
    )
    statement_seconds: float = declare(
        30.0, seconds("Seconds for a statement", "The target ends what takes longer.")
    )
    password: str = secret("Password")

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> dict[str, str]:
        columns = values.get("columns", {})
        missing = [one for one in values.get("key_columns", []) if one not in columns]
        if values.get("mode") == "upsert" and missing:
            return {"key_columns": f"key_columns has {missing[0]}, which the columns do not fill."}
        own = values.get("message_id_column", "")
        if own and own in columns:
            sentence = f"{own} is filled with the message id; take it off columns."
            return {"message_id_column": sentence}
        return {}
