"""Takes away from the database exactly what verified files hold, and nothing that changed since."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from psycopg import sql
from psycopg.errors import LockNotAvailable, UndefinedTable

from integration.track_parts import BRIEF, DEFAULT, IN_UTC, LIST, ONE_AT_A_TIME, TABLE, parts_of
from spark_jobs.archive.hiding import Hide, hiding_of
from spark_jobs.archive.parameters import Rule
from spark_jobs.archive.shelving import Manifest
from spark_jobs.archive.sources import KEY, columns_of, rule_of
from spark_jobs.archive.writing import Archive
from spark_jobs.contract import Progress
from spark_jobs.errors import JobError
from spark_jobs.staging import Session
from spark_jobs.tables.columns import (
    Column,
    ColumnKind,
    digest,
    digest_sql,
    select,
    summed,
    tally_sql,
)

ROWS_AT_ONCE: Final = 1_000
PATIENT: Final = "SET LOCAL lock_timeout = '5s'"
# A day or a row that somebody uses is asked for so often, a second apart.
TRIES: Final = 60
Answer = TypeVar("Answer")


def drop(archive: Archive, manifest: Manifest) -> int:
    """Drop what the files of a part hold; how many of its rows are still here.

    The files stay, whatever is found here: somebody else may have removed the rows meanwhile.
    Raises JobError STILL_IN_USE, RUN_TAKEN, and Stopped; what is left is dropped by the next try.
    """
    if archive.parameters.rule is None and manifest["table"] != DEFAULT:
        return 0 if _drop_day(archive, manifest) else int(manifest["rows"])
    return _drop_rows(archive, manifest)


def _patiently(archive: Archive, what: str, act: Callable[[], Answer]) -> Answer:
    """Try again while somebody has a lock; batches wait for ours at most half a second."""
    for _ in range(TRIES):
        archive.work.tell.go_on()
        try:
            return act()
        except LockNotAvailable:
            time.sleep(1)
    raise JobError(
        "STILL_IN_USE",
        f"{what} is archived, and somebody uses it all the time: it could not be dropped here.",
        "Let the run go on later; nothing is archived twice.",
    )


def _drop_day(archive: Archive, manifest: Manifest) -> bool:
    """Take a partition off and drop it, if it holds exactly what was archived.

    Its rows are summed up once more while nobody can change one. That may take minutes, in which
    only this day is locked, and that for nobody who reads; neither is the run's own row.
    """
    session, table = archive.work.database, str(manifest["table"])
    with session.transaction():
        if not _is_held(archive, table):
            return True
        if not _is_same(archive, manifest):
            return False
        _patiently(archive, table, lambda: _detach(archive, table))
    # Apart from the lock on all of tracking: the files of a large table take their time to go.
    _patiently(archive, table, lambda: _remove(archive, table))
    return True


def _is_held(archive: Archive, table: str) -> bool:
    """Lock the day against changes from here on; returns whether it is still here."""
    session = archive.work.database
    held = sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(sql.Identifier(table))

    def lock() -> None:
        with session.transaction():
            session.execute(PATIENT)
            session.execute(held)

    try:
        _patiently(archive, table, lock)
    except UndefinedTable:
        return False
    return True


def _is_same(archive: Archive, manifest: Manifest) -> bool:
    """Return whether the day has as many rows as its files, and these sum up to the same."""
    if not _has_all(archive, manifest):
        return False
    columns, source = _columns(manifest), f"{manifest['table']} t"
    hide = hiding_of(archive.parameters, columns)
    if hide is None:
        tallies = _ask(archive.work.database, tally_sql(columns, source, "true"), {})
    else:
        tallies = [_tally_hidden(archive.work.database, source, columns, hide)]
    expected = manifest["rows"], sum(file["sum"] for file in manifest["files"])
    return [tuple(map(int, row)) for row in tallies] == [expected]


def _tally_hidden(
    session: Session, source: str, columns: Sequence[Column], hide: Hide
) -> tuple[int, int]:
    """The same of the rows as they would be archived now: no file has a sum of true values."""
    copying = f"COPY ({select(columns, source, 'true')}) TO STDOUT (FORMAT BINARY)"
    count = total = 0
    with session.cursor() as cursor, cursor.copy(copying.encode()) as copy:
        copy.set_types([column.database_type for column in columns])
        for row in copy.rows():
            count, total = count + 1, total + summed(digest(hide(row)))
    return count, total


def _detach(archive: Archive, table: str) -> None:
    """The one moment at which batches may have to wait; it is over with the commit."""
    session = archive.work.database
    with archive.work.claimed():
        session.execute(BRIEF)
        session.execute(ONE_AT_A_TIME)
        session.execute(IN_UTC)
        if table in {part.table for part in parts_of(session.execute(LIST).fetchall())}:
            parent, part = sql.Identifier(TABLE), sql.Identifier(table)
            session.execute(sql.SQL("ALTER TABLE {} DETACH PARTITION {}").format(parent, part))


def _remove(archive: Archive, table: str) -> None:
    with archive.work.claimed():
        archive.work.database.execute(BRIEF)
        dropped = sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table))
        archive.work.database.execute(dropped)


def _drop_rows(archive: Archive, manifest: Manifest) -> int:
    """Row by row as the files tell them: each is compared with what is here by now."""
    if not _has_all(archive, manifest):
        return int(manifest["rows"])
    rule, columns = rule_of(archive.parameters, manifest["table"]), _columns(manifest)
    staying = done = 0
    # Without a file there is nothing to be read.
    archived = (
        archive.shelf.archived(archive.spark, manifest, columns) if manifest["files"] else iter(())
    )
    while lot := dict(islice(archived, ROWS_AT_ONCE)):
        act = partial(_drop_lot, archive, rule, columns, lot)
        staying, done = staying + _patiently(archive, rule.table, act), done + len(lot)
        archive.work.tell.progress(
            Progress(stage="drop", done=done, total=manifest["rows"], rows=done)
        )
    return staying


def _has_all(archive: Archive, manifest: Manifest) -> bool:
    """Return whether the files have every column: a release may have brought one since.

    One that was gone when it was to be read has none, and is another table if it is here now.
    """
    rule = rule_of(archive.parameters, manifest["table"])
    return list(columns_of(archive.work.database, rule)) == _columns(manifest)


def _columns(manifest: Manifest) -> list[Column]:
    return [Column(name, ColumnKind(kind), text) for name, kind, text in manifest["columns"]]


def _drop_lot(
    archive: Archive, rule: Rule, columns: Sequence[Column], lot: Mapping[Any, str]
) -> int:
    """Remove those that are what was archived and that the rule still names; how many stay.

    They are locked before they are looked at, so that nobody changes them in between.
    """
    session = archive.work.database
    keys = [UUID(key) if isinstance(key, str) else key for key in lot]
    values = {"keys": keys, "at": archive.parameters.at, "before": archive.parameters.before}
    chosen = f"t.{KEY} = ANY(%(keys)s)"
    condition = f"{rule.condition} AND {rule.since} < %(before)s::timestamptz AND {chosen}"
    here = select(columns, f"{rule.table} t", chosen)
    with archive.work.claimed():
        session.execute(PATIENT)
        _ask(session, f"{_keys(f'{rule.table} t', chosen)} ORDER BY t.{KEY} FOR UPDATE", values)
        digests = _digests_now(archive, here, columns, values)
        over = _ask(session, _keys(rule.source, condition), values)
        same = {str(key) for key, now in digests.items() if lot.get(key) == now}
        gone = [key for (key,) in over if str(key) in same]
        for statement in rule.removals:
            session.execute(statement.encode(), {"keys": gone})
    return len(digests) - len(gone)


def _digests_now(
    archive: Archive, here: str, columns: Sequence[Column], values: Mapping[str, Any]
) -> dict[Any, str]:
    """The digest of each row as it would be archived now, by its key."""
    session, hide = archive.work.database, hiding_of(archive.parameters, columns)
    if hide is None:
        return dict(_ask(session, _digests(here, columns), values))
    place = [column.name for column in columns].index(KEY)
    return {row[place]: digest(hide(row)) for row in _ask(session, here, values)}


def _keys(source: str, condition: str) -> str:
    return f"SELECT t.{KEY} FROM {source} WHERE {condition}"


def _digests(rows: str, columns: Sequence[Column]) -> str:
    # OFFSET keeps the columns from being computed again for each piece of a digest.
    return f"SELECT c.{KEY}, {digest_sql(columns)} FROM ({rows} OFFSET 0) c"


def _ask(session: Session, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return session.execute(statement.encode(), values).fetchall()
