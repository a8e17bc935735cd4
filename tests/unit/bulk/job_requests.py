"""What imports are asked for in tests."""

from typing import Any

from spark_jobs.imports.parameters import ImportParameters

STRUCTURE = {"name": "ASSET", "key_paths": ["$.assetnum", "$.siteid"]}
COLUMNS = [{"source": "a", "target": "assetnum"}, {"source": "b", "target": "siteid"}]


def import_parameters(**fields: Any) -> ImportParameters:
    said = {
        "source": "/nowhere",
        "format": "csv",
        "structure": STRUCTURE,
        "arrival": 7,
        "rejects_queue": 1,
        "columns": COLUMNS,
    }
    return ImportParameters.of(said | fields)
