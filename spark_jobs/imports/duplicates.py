"""Of several rows with one key one counts: which, in SQL, and what becomes of the others."""

from collections.abc import Mapping
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from integration.policy.failure import Failure, FailureClass
from spark_jobs.imports.parameters import Duplicates, ImportParameters
from spark_jobs.imports.rows import Flaw
from spark_jobs.imports.staging import PLACES_BITS, Stage

TWICE: Final = Flaw("DUPLICATE_ROW", "An earlier row of this import has the same key.")
# Over the staged documents `d` of one key: the first in this order counts.
_ORDER: Final[Mapping[Duplicates, LiteralString]] = {
    Duplicates.LAST: "d.place DESC",
    Duplicates.FIRST: "d.place",
    Duplicates.NEWEST: "d.version DESC NULLS LAST, d.place DESC",
    Duplicates.REJECT: "d.place",
}
# Most keys are there once; the others alone are sorted.
_TAKE_OUT: Final = """
WITH twice AS (
  SELECT key FROM {documents} GROUP BY key HAVING count(*) > 1
), placed AS (
  SELECT d.place, row_number() OVER (PARTITION BY d.key ORDER BY {order}) AS number
  FROM {documents} d JOIN twice USING (key)
), taken AS (
  DELETE FROM {documents} d USING placed n WHERE d.place = n.place AND n.number > 1
  RETURNING d.place, d.line, coalesce(nullif(d.xml, ''), d.document::text) AS document
), rejected AS (
  INSERT INTO {rejects} (place, file, line, code, text, fingerprint, payload, raw)
  SELECT t.place, r.file, t.line, %(code)s::text, %(text)s::text, %(cause)s::text,
    convert_to(t.document, 'UTF8'), ''
  FROM taken t JOIN {ranges} r ON r.number = t.place >> %(bits)s
  WHERE %(rejects)s::boolean
)
SELECT count(*) FROM taken
"""


def order(rule: Duplicates) -> sql.SQL:
    """How the staged documents `d` of one key are sorted: the first one counts."""
    return sql.SQL(_ORDER[rule])


def take_out(session: psycopg.Connection[Any], tables: Stage, parameters: ImportParameters) -> int:
    """Take what does not count out of the stage, to the rejects where that was asked for.

    Returns how many rows that were; done again it finds none.
    """
    session.execute(tables.sql("ANALYZE {documents}"))
    said = {
        "rejects": parameters.duplicates is Duplicates.REJECT,
        "bits": PLACES_BITS,
        "code": TWICE.code,
        "text": TWICE.text,
        "cause": Failure(FailureClass.PERMANENT, *TWICE).fingerprint,
    }
    statement = tables.sql(_TAKE_OUT, order=order(parameters.duplicates))
    found = session.execute(statement, said).fetchone()
    return int(found[0]) if found else 0
