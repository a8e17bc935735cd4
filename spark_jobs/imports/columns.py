"""The columns of a CSV source before anybody has mapped them, with their first values."""

from typing import Final, NamedTuple

from spark_jobs.imports import planning, sources
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.reading import header_of
from spark_jobs.storage import DISK, Storage

VALUES: Final = 3
SHOWN_CHARACTERS: Final = 60


class FoundColumn(NamedTuple):
    """One column, and what its first rows have in it."""

    name: str
    values: tuple[str, ...]


def read(
    source: str, *, encoding: str, delimiter: str, storage: Storage = DISK
) -> list[FoundColumn]:
    """The columns of the first file that has any.

    Raises JobError: NO_SOURCE, NO_HEADER, STORAGE_FAILED, TOO_MANY_FILES, BAD_PARAMETERS
    for an impossible encoding or delimiter.
    """
    parameters = ImportParameters.of(
        {
            "source": source,
            "format": "csv",
            "structure": {"name": "", "key_paths": []},
            "arrival": 0,
            "rejects_queue": 0,
            # A map is asked for; which one says nothing of the columns that there are.
            "columns": [{"source": "-", "target": "-"}],
            "encoding": encoding,
            "delimiter": delimiter,
        }
    )
    files = planning.files_of(parameters, storage, most=planning.MOST_PREVIEWED)
    first_file = next((name for name, size in files if size), files[0][0])
    names = header_of(first_file, parameters, storage)
    glimpse = sources.glimpse(files, parameters, storage)
    first = [
        row.values
        for row in glimpse.rows[:VALUES]
        if row.flaw is None and len(row.values) == len(names)
    ]
    return [
        FoundColumn(name, tuple(values[place][:SHOWN_CHARACTERS] for values in first))
        for place, name in enumerate(names)
    ]
