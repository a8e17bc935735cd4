"""An entry of DATABASES: what the engine needs of its sessions, and how its own ones get there."""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

# The engine's sessions die soon after their process: PostgreSQL itself looks whether the client
# is still there, also in the middle of a statement, and TCP keepalives find a vanished host.
SESSION_OPTIONS: Final[Mapping[str, object]] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "application_name": "sluice",
}
# Compiling pays where a statement reads for long, and is chosen by a guess: among a million
# failures the dispatcher's look took 2,860 ms with it, 7 ms without.
SERVER_OPTIONS: Final = "-c client_connection_check_interval=500ms -c timezone=UTC -c jit=off"
# A project's own options of libpq that say how it gets to the server and how it proves who it is.
ON_THE_WAY: Final = (
    *("ssl", "gss", "krb", "passfile"),
    *("require_auth", "channel_binding", "target_session"),
)


def complete_session(database: MutableMapping[str, Any], of_command: str = "") -> None:
    """Add what the engine needs of sessions to an entry; what it says itself stands.

    `of_command` is PGOPTIONS, which libpq itself no longer looks at where an entry has options.
    """
    said = database.get("OPTIONS", {})
    # Of an option that is given twice the last one counts.
    server = f"{of_command} {SERVER_OPTIONS} {said.get('options', '')}".strip()
    database["OPTIONS"] = {**SESSION_OPTIONS, **said, "options": server}


def place_of(database: Mapping[str, Any]) -> dict[str, Any]:
    """Where the database is and how a session gets there, in libpq's words."""
    options = database.get("OPTIONS", {})
    return {
        "dbname": database["NAME"],
        "user": database.get("USER") or None,
        "password": database.get("PASSWORD") or None,
        "host": database.get("HOST") or None,
        "port": database.get("PORT") or None,
        **{name: options[name] for name in options if name.startswith(ON_THE_WAY)},
    }
