"""The preview of a repair: all of it counted, and the change tried on a bounded sample of it."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from integration.documents.layout import differences
from integration.recipe_use import Changed
from spark_jobs.contract import SAMPLES, Arguments, Preview, Sample
from spark_jobs.repairs.judging import COLUMNS, Judge, Judged, Row, Verdict
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.repairs.releasing import causes
from spark_jobs.repairs.selection import COST, condition
from spark_jobs.tables.reading import look, seen

TRIED: Final = 1_000
TRIED_BYTES: Final = 16 * 2**20
SHOWN_LINES: Final = 60
SHOWN_CHARACTERS: Final = 300
COMPARED_CHARACTERS: Final = 200_000
TOO_LONG: Final = (
    "The documents are too long, or repeat the same lines too often, to be compared here."
)
ENDS: Final = {
    Verdict.FITS: "edited",
    Verdict.SAME: "unchanged",
    Verdict.MISFIT: "not applicable",
    Verdict.REFUSED: "invalid",
}
_COUNT: Final = """
SELECT count(*), coalesce(sum({cost}), 0) FROM integration_messageerror e WHERE {condition}
"""
_GUESS: Final = """
EXPLAIN (FORMAT JSON) SELECT FROM integration_messageerror e WHERE {condition}
"""
# By their ids, which are random: the first to arrive are often of one kind.
_TRIED: Final = (
    """
WITH i AS (
  SELECT row_number() OVER (ORDER BY id) AS place, id, version, queue,
    sum(cost) OVER (ORDER BY id) - cost AS before
  FROM (
    SELECT e.id, e.version, e.queue_id AS queue, {cost} AS cost
    FROM integration_messageerror e WHERE {condition} ORDER BY e.id LIMIT %(tried)s
  ) first
) SELECT """
    + COLUMNS
    + """
FROM i JOIN integration_messageerror e ON e.id = i.id
WHERE i.before < %(tried_bytes)s ORDER BY i.place
"""
)


def preview(arguments: Arguments) -> Preview:
    """Count what is chosen, and try the change on some of it; nothing is written.

    The counts in `facts` are of the `tried` ones: none where to find them would take too long.
    Raises JobError: what the parameters refuse.
    """
    parameters = RepairParameters.of(arguments.parameters)
    with look(arguments.database) as session:
        counted = _asked(session, parameters, _COUNT)
        matching, cost = counted[0] if counted else (_guessed(session, parameters), None)
        rows = [Row(*values) for values in _asked(session, parameters, _TRIED) or ()]
    judge = Judge(parameters)
    judged = [(row, judge.judge(row)) for row in rows]
    meant = [(row, result) for row, result in judged if result.kind is not Verdict.NOT_MEANT]
    share = len(meant) / len(judged) if judged else 1
    return Preview(
        samples=list(_samples(meant)),
        rows=round(matching * share),
        bytes=None if cost is None else int(cost),
        facts={
            **_facts(meant),
            "is_all": counted is not None and len(judged) == matching,
            "counted": counted is not None,
        },
    )


def _asked(
    session: psycopg.Connection[Any], parameters: RepairParameters, statement: LiteralString
) -> list[tuple[Any, ...]] | None:
    """The rows of a statement; None where it would take too long."""
    where, values = condition(parameters.selection)
    query = sql.SQL(statement).format(cost=COST, condition=where)
    limits = {"tried": TRIED, "tried_bytes": TRIED_BYTES}
    return seen(session, query.as_string(session), {**values, **limits})


def _guessed(session: psycopg.Connection[Any], parameters: RepairParameters) -> int:
    """How many there are, as the planner guesses."""
    found = _asked(session, parameters, _GUESS)
    return int(found[0][0][0]["Plan"]["Plan Rows"]) if found else 0


def _facts(meant: list[tuple[Row, Judged]]) -> dict[str, Any]:
    kinds = Counter(result.kind for _, result in meant)
    whys = Counter(result.why for _, result in meant if result.why)
    return {
        "tried": len(meant),
        "edited": kinds[Verdict.FITS],
        "unchanged": kinds[Verdict.SAME],
        "not_applicable": kinds[Verdict.MISFIT],
        "invalid": kinds[Verdict.REFUSED],
        "causes": causes(whys.most_common()),
    }


def _samples(meant: list[tuple[Row, Judged]]) -> Iterator[Sample]:
    """Those that are changed first, with what changes in them."""
    ranked = sorted(meant, key=lambda pair: pair[1].kind is not Verdict.FITS)
    for row, (kind, why, change) in ranked[:SAMPLES]:
        yield Sample(
            place=f"failure {row.id}",
            ends=ENDS.get(kind, "skipped"),
            text="" if change is None else _shown(change),
            code="" if kind is Verdict.FITS else kind.value,
            why=why,
        )


def _shown(change: Changed) -> str:
    is_long = len(change.before) + len(change.after) > COMPARED_CHARACTERS
    changes = None if is_long else differences(change.before, change.after)
    if changes is None:
        return TOO_LONG
    lines = [f"{line.sign} {line.text[:SHOWN_CHARACTERS]}" for line in changes]
    return "\n".join(lines[:SHOWN_LINES] + (["…"] if len(lines) > SHOWN_LINES else []))
