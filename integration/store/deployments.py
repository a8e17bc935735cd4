"""The owner of this database, and its right to act: no copy has that, nor one that went back.

What keeps it from acting is asked in one statement, by everything that would start something.
"""

from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings

# Another value than the noted one: the data was restored into another database, or the server
# went on from an earlier state. The timeline changes at each promotion of a standby.
_DATABASE: Final = (
    "(SELECT system_identifier FROM pg_control_system())::text || '/' "
    "|| (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# The timeline that is written to. The last checkpoint's is that of the lost server for as long as
# the first one after a promotion takes, which may be minutes; a standby has no other one to tell.
_TIMELINE: Final = """
    CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END"""
MARK: Final = f"{_DATABASE} || '/' || ({_TIMELINE})"
# The same for all time; a standby that is promoted has it, too.
HOME: Final = f"SELECT {_DATABASE}"
_STANDING: Final = f"""
    SELECT d.name, d.environment, d.database_mark, {MARK}, r.id, r.examined_at IS NOT NULL
    FROM (SELECT 1) one LEFT JOIN integration_deployment d ON true
    LEFT JOIN integration_restore r ON r.closed_at IS NULL
    ORDER BY (d.name = %s AND d.environment = %s), d.id LIMIT 1"""
_NOTE_MARK: Final = (
    "UPDATE integration_deployment SET database_mark = %s WHERE database_mark = %s RETURNING id"
)
NOTICE: Final = """
    INSERT INTO integration_restore (noticed_by, text) VALUES (%s, %s)
    ON CONFLICT ((1)) WHERE closed_at IS NULL DO UPDATE SET examined_at = NULL"""
_OPEN: Final = (
    "EXISTS (SELECT 1 FROM integration_restore r WHERE r.closed_at IS NULL AND "
    "(r.examined_at IS NULL OR EXISTS (SELECT 1 FROM integration_restorefinding f "
    "WHERE f.restore_id = r.id AND f.decided_at IS NULL AND {})))"
)


def holds_queue(queue: str) -> str:
    """SQL condition: a restore holds the queue whose id is the SQL expression `queue`."""
    return _OPEN.format(f"f.queue = {queue}")


def holds_relay(provider: str) -> str:
    """SQL condition: a restore holds the relay of the provider of this SQL expression."""
    return _OPEN.format(f"f.provider = {provider}")


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of this database to this process. `mark` is what it is by now."""

    name: str | None
    environment: str | None
    noted_mark: str
    mark: str
    restore_id: int | None
    is_examined: bool

    @property
    def owner(self) -> str | None:
        """The owner, where that is not us: the environment, and the name if that differs too."""
        if self.environment is None:
            return None
        if self.name != settings.SLUICE_DEPLOYMENT:
            return f"{self.environment} ({self.name})"
        return None if self.environment == settings.SLUICE_ENVIRONMENT else self.environment

    @property
    def is_moved(self) -> bool:
        """Return whether the data is not where it was written, or went on from another state."""
        return self.noted_mark not in {"", self.mark}

    @property
    def is_another_database(self) -> bool:
        """Return whether it was restored or copied; a promoted standby is the same database."""
        return self.is_moved and self.noted_mark.rsplit("/", 1)[0] != self.mark.rsplit("/", 1)[0]


def standing(cursor: Any) -> Standing:
    """Tell how this database stands now. Raises the cursor's own error when it is away."""
    ours = (settings.SLUICE_DEPLOYMENT, settings.SLUICE_ENVIRONMENT)
    cursor.execute(_STANDING, ours)
    name, environment, noted, mark, restore_id, is_examined = cursor.fetchone()
    return Standing(name, environment, noted or "", mark, restore_id, bool(is_examined))


def foreign_environment(cursor: Any) -> str | None:
    """Return the owner of this database if it is not us; None when it is this installation.

    Raises the cursor's own error when the database is away.
    """
    return standing(cursor).owner


def may_act(cursor: Any) -> bool:
    """Return whether anything may be read, sent, delivered or accepted with this database.

    Not in a copy, and not between noticing a restore and having looked what it means; what is
    held after that look, each queue and relay asks for itself. The first who finds the database
    somewhere else writes that down.
    """
    now = standing(cursor)
    if now.owner is not None:
        return False
    if now.is_moved or (now.environment is not None and not now.noted_mark):
        return not _note(cursor, now)
    return now.restore_id is None or now.is_examined


def may_run(cursor: Any, queue_id: int) -> bool:
    """Return whether this queue may be read: see `may_act`, and no decision about it is open."""
    if not may_act(cursor):
        return False
    cursor.execute(f"SELECT NOT {holds_queue('%s')}", (queue_id,))
    return bool(cursor.fetchone()[0])


def _note(cursor: Any, now: Standing) -> bool:
    """Note where the data is by now; whether that is a return to be looked at."""
    cursor.execute(_NOTE_MARK, (now.mark, now.noted_mark))
    is_first = cursor.fetchone() is not None
    if is_first and now.is_moved:
        notice(cursor, "database" if now.is_another_database else "timeline", moved_text(now))
    return now.is_moved or not (now.restore_id is None or now.is_examined)


def notice(cursor: Any, how: str, text: str) -> None:
    """Write down that the database went back; one that is open already is looked at anew."""
    cursor.execute(NOTICE, (how, text))


def moved_text(now: Standing) -> str:
    if now.is_another_database:
        return (
            "This data was written in another database: it was restored from a backup, copied, "
            "or its server was upgraded."
        )
    return "The database server went on from an earlier state: a standby took over, or a restore."
