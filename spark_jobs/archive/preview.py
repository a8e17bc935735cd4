"""The preview of an archive: its first rows and about how many; nothing is written or removed."""

from typing import Any, Final, LiteralString

import psycopg

from spark_jobs.archive import planning
from spark_jobs.archive.parameters import ArchiveParameters
from spark_jobs.archive.planning import Part
from spark_jobs.archive.sources import KEY, Source, source_of
from spark_jobs.contract import SAMPLES, Arguments, Preview, Sample
from spark_jobs.tables.reading import look, seen

SHOWN_CHARACTERS: Final = 2_000
_KNOWN: Final[LiteralString] = (
    "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass(%s)"
)


def preview(arguments: Arguments) -> Preview:
    """The first rows, without what could be large, and about how many there are.

    Raises JobError BAD_PARAMETERS.
    """
    parameters = ArchiveParameters.of(arguments.parameters)
    with look(arguments.database) as session:
        parts = _parts(session, parameters)
        sources = [source_of(session, parameters, part) for part in parts]
        counts = [_counted(session, *pair) for pair in zip(parts, sources, strict=True)]
        samples = _first(session, sources[0]) if sources else []
    return Preview(
        samples=samples,
        rows=sum(count for count, _ in counts),
        bytes=None,
        columns=[column.name for column in sources[0].columns] if sources else (),
        facts={"tables": len(parts), "counted": all(is_exact for _, is_exact in counts)},
    )


def _parts(session: psycopg.Connection[Any], parameters: ArchiveParameters) -> tuple[Part, ...]:
    """Return the parts; where a rule names the rows, ranges are of no use and take all of them."""
    if parameters.rule is None:
        return planning.plan(session, parameters).parts
    return (Part(number=0, table=parameters.rule.table, ranges=()),)


def _counted(session: psycopg.Connection[Any], part: Part, source: Source) -> tuple[int, bool]:
    """Count a part's rows, and tell whether they were counted or are the planner's guess."""
    statement = f"SELECT count(*) FROM {source.source} WHERE {source.condition}"
    counted = seen(session, statement, source.values)
    if counted is not None:
        return int(counted[0][0]), True
    row = session.execute(_KNOWN, [part.table]).fetchone()
    return int(row[0]) if row else 0, False


def _first(session: psycopg.Connection[Any], source: Source) -> list[Sample]:
    statement = (
        f"SELECT t.{KEY}::text, {source.since}::text, "
        "left((to_jsonb(t) - '{payload,edited_payload,headers}'::text[])::text, "
        f"{SHOWN_CHARACTERS}) FROM {source.source} WHERE {source.condition} LIMIT {SAMPLES}"
    )
    rows = seen(session, statement, source.values) or []
    return [Sample(place=f"{key}, {at}", ends="archived", text=text) for key, at, text in rows]
