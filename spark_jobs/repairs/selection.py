"""The condition of a selection in SQL, over rows `e` of the error table."""

from typing import Any, Final

from psycopg import sql

from integration.text_search import PACKED, needles
from spark_jobs.repairs.parameters import Selection

VALUE: Final = sql.SQL("coalesce(e.edited_payload, e.payload)")
# A row's own cost beside its bytes: an object or two, and what is written of it.
ROW_BYTES: Final = 2_000
# Nothing is read to be measured.
COST: Final = sql.SQL(
    "(coalesce(octet_length({value}), 0) + pg_column_size(e.headers) + {row})"
).format(value=VALUE, row=sql.Literal(ROW_BYTES))
# Written out, and not as parameters: the indexes of open failures are by these words.
_ALWAYS: Final = sql.SQL("e.state = 'HOLD' AND e.queue_id = ANY(%(queues)s)")
_CONDITIONS: Final = {
    "code": sql.SQL("e.code = %(code)s"),
    "fingerprint": sql.SQL("e.fingerprint = %(fingerprint)s"),
    "run": sql.SQL("e.topic_uuid = %(run)s"),
    "since": sql.SQL("e.last_failed_at >= %(since)s"),
    "until": sql.SQL("e.last_failed_at <= %(until)s"),
}
_HOLDS: Final = sql.SQL(
    "EXISTS (SELECT 1 FROM unnest(%(needles)s::bytea[]) n WHERE position(n IN {value}) > 0)"
).format(value=VALUE)


def condition(selection: Selection) -> tuple[sql.Composed, dict[str, Any]]:
    """The condition and its parameters.

    Where a text is looked for it also lets envelopes and retry wrappers through that may hide it:
    what is in them is looked at when they are judged.
    """
    values: dict[str, Any] = {"queues": list(selection.queues)}
    parts: list[sql.Composable] = [_ALWAYS]
    for name, part in _CONDITIONS.items():
        if value := getattr(selection, name):
            parts.append(part)
            values[name] = value
    if selection.interface is not None:
        parts.append(sql.SQL("e.interface = %(interface)s"))
        values["interface"] = selection.interface
    if selection.text:
        parts.append(_HOLDS)
        values["needles"] = [*needles(selection.text), *PACKED]
    return sql.SQL(" AND ").join(parts), values
