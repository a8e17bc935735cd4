"""The transform stage of an import alone: rows are read and mapped in tasks, and counted.

Here the job's own modules are imported, because the stage is what is measured; both sides are
the same but for their number of processors.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from bench.sparkside import Counts, serve, session_of
from spark_jobs.imports import planning, sources
from spark_jobs.imports.mapping import Document, Mapper
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import Range


def transform(session: Any, request: Mapping[str, Any]) -> Counts:
    """Read and map what the parameters name; how many documents and rejects come of it."""
    parameters = ImportParameters.of(request)
    plan = planning.plan(parameters)
    names = sources.names_of((part.file for part in plan.ranges), parameters)

    def task(part: Range) -> tuple[int, int]:
        mapper = Mapper(parameters, names[part.file])
        good = bad = 0
        for row in sources.rows_of(part, parameters, names[part.file]):
            if isinstance(mapper.map(row), Document):
                good += 1
            else:
                bad += 1
        return good, bad

    done = session.sparkContext.parallelize(plan.ranges, len(plan.ranges)).map(task).collect()
    return {"sent": sum(good for good, _ in done), "rejected": sum(bad for _, bad in done)}


def main() -> None:
    """Serve the transform stage on so many processors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cores", type=int)
    cores: int = parser.parse_args().cores
    session = session_of(f"local[{cores}]")
    serve(f"scale {cores}", lambda request: transform(session, request))


if __name__ == "__main__":
    main()
