"""An import as a person asks for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crontasks.bulk.errors import bad_wish, unknown
from integration.models import ObjectStructure, Queue
from spark_jobs.imports.parameters import ImportParameters

# Names that a wish has and the job has not: each becomes what it stands for.
NAMED: Final = ("source", "structure", "rejects_queue")


def prepare(wish: Mapping[str, Any]) -> dict[str, Any]:
    """What the job is told: names become what they stand for now.

    A wish has `source` (a path), `format`, `structure` and `rejects_queue` (names), and what else
    ImportParameters has, but for `arrival`. Raises BulkError for a name that nobody has, JobError
    BAD_PARAMETERS.
    """
    for name in NAMED:
        if not isinstance(wish.get(name), str) or not wish[name]:
            raise bad_wish(f"it does not say {name}")
    structure = ObjectStructure.objects.filter(name=wish["structure"]).first()
    queue = Queue.objects.filter(name=wish["rejects_queue"], direction="inbound").first()
    if structure is None:
        raise unknown("object structure", wish["structure"])
    if queue is None:
        raise unknown("inbound queue", wish["rejects_queue"])
    parameters = {
        **wish,
        "source": str(Path(wish["source"]).absolute()),
        "structure": {
            "name": structure.name,
            "key_paths": structure.key_paths,
            "version_path": structure.version_path,
            "json_schema": structure.json_schema,
            "tombstone": structure.tombstone,
        },
        "arrival": 0,
        "rejects_queue": queue.pk,
    }
    ImportParameters.of(parameters)
    return parameters
