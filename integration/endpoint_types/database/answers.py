"""The meaning of an error of the target database: for one message, or for all of them."""

from typing import Final

import psycopg
from psycopg import errors as pg

from integration.endpoint_types.database.properties import DatabaseProperties
from integration.endpoint_types.database.rows import ledger_sql
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import Later, Refused, Unreachable

# Somebody else was in the way; the next try may go through.
BUSY: Final = (
    pg.LockNotAvailable,
    pg.QueryCanceled,
    pg.DeadlockDetected,
    pg.SerializationFailure,
)
# The values of this one message. Their own types are the payload's (a number column that gets
# true), and so is their length (an indexed column that gets a page of text).
VALUES: Final = (
    psycopg.IntegrityError,
    psycopg.DataError,
    pg.DatatypeMismatch,
    pg.ProgramLimitExceeded,
    pg.WithCheckOptionViolation,
)
# The class of errors that functions and triggers of the target raise themselves.
RAISED: Final = "P0"
QUOTES: Final = "\"'“”„«»"


def is_of_message(problem: psycopg.Error) -> bool:
    """Return whether another message might well be taken."""
    return isinstance(problem, (*BUSY, *VALUES)) or _is_raised(problem.sqlstate)


def _is_raised(state: str | None) -> bool:
    """Return whether a trigger judged the row, in a state of its own making or PL/pgSQL's."""
    if state is None or state.startswith(RAISED):
        return state is not None
    try:
        pg.lookup(state)
    except KeyError:
        return True
    return False


def busy_or_refused(problem: psycopg.Error) -> Later | Refused:
    """The answer to one message."""
    if isinstance(problem, BUSY):
        return Later(
            code=EndpointCode.DATABASE_BUSY, text=f"The target was busy: {words(problem)}."
        )
    text = f"The target refuses the row: {words(problem)}."
    return Refused(code=EndpointCode.DATABASE_REFUSED, text=text)


def unreachable(problem: psycopg.Error, properties: DatabaseProperties) -> Unreachable:
    """The answer to every message: what is missing, and who can give it."""
    code, text = _missing(problem, properties)
    return Unreachable(code=code, text=text)


def _missing(problem: psycopg.Error, properties: DatabaseProperties) -> tuple[EndpointCode, str]:
    target = f"{properties.schema}.{properties.table}"
    if isinstance(problem, pg.UndefinedTable | pg.InvalidSchemaName):
        return EndpointCode.DATABASE_TABLE_MISSING, _no_table(problem, properties)
    if isinstance(problem, pg.UndefinedColumn):
        return EndpointCode.DATABASE_COLUMN_MISSING, (
            f"The target has no such column: {words(problem)}. Take it off the columns of the "
            f"endpoint, or add it there: ALTER TABLE {target} ADD COLUMN …."
        )
    if isinstance(problem, pg.InvalidColumnReference):
        columns = properties.message_id_column or ", ".join(properties.key_columns)
        return EndpointCode.DATABASE_NO_KEY, (
            f"The target has no unique index over exactly {columns}: CREATE UNIQUE INDEX ON "
            f"{target} ({columns});"
        )
    if isinstance(problem, pg.InsufficientPrivilege):
        return EndpointCode.DATABASE_RIGHT_MISSING, (
            f"{properties.username} may not write there: {words(problem)}. GRANT SELECT, INSERT, "
            f"UPDATE ON {target} TO {properties.username};"
        )
    if problem.sqlstate is None or isinstance(problem, psycopg.OperationalError):
        text = f"The target database cannot be used: {words(problem)}."
        return EndpointCode.DATABASE_UNREACHABLE, text
    return EndpointCode.DATABASE_STATEMENT, (
        f"The target does not accept the statement: {words(problem)}."
    )


def words(problem: psycopg.Error) -> str:
    """The server's own sentence, without the values that it may quote."""
    first = problem.diag.message_primary or (str(problem).strip().splitlines() or [""])[0]
    return first.strip().rstrip(".") or type(problem).__name__


def _no_table(problem: psycopg.Error, properties: DatabaseProperties) -> str:
    ledger = f"{properties.schema}.{properties.ledger}"
    # Each language has quotation marks of its own, and the target's name may begin like this one.
    if any(word.strip(QUOTES) == ledger for word in words(problem).split()):
        return (
            f"The target has no table {properties.ledger}, by which repeats are dropped. Make it: "
            f"{ledger_sql(properties)}"
        )
    return f"The target has no such table: {words(problem)}. Make it, or correct the endpoint."
