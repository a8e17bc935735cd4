"""Files of an archive that each task writes where it runs, and gives to be kept.

So it is where no folder is shared, and where rows are masked: what is written is then not what
SQL sums up, and each task proves both, that it read what is there and that its files hold it.
"""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from spark_jobs.archive.hiding import Hide, Row
from spark_jobs.archive.planning import Range
from spark_jobs.archive.shelving import FileEntry, Keep, damaged
from spark_jobs.archive.sources import DAY, Source
from spark_jobs.tables import arrow
from spark_jobs.tables.columns import Column, digest, summed
from spark_jobs.tables.parquet import Tally
from spark_jobs.tables.reading import rows
from spark_jobs.work import Work

# Days that a task writes side by side: each may hold a group of rows in memory.
DAYS_AT_ONCE: Final = 8
MASKED: Final = {"sluice.masked": "true"}


def write_files(
    work: Work,
    source: Source,
    snapshot: str,
    parts: Sequence[Range],
    keep: Keep,
    *,
    hide: Hide | None,
) -> tuple[list[FileEntry], Tally]:
    """Write all ranges; the files that are kept, and the tally of the rows as they were read.

    Raises JobError ARCHIVE_DAMAGED for files that do not hold what was written.
    """
    database = work.arguments.database
    done, count = work.counter(), work.counter()

    def task(numbered: tuple[int, Range]) -> tuple[list[FileEntry], Tally]:
        number, one = numbered
        statement, values = source.statement(one)
        read = rows(database, snapshot, statement, values, source.dated)
        with tempfile.TemporaryDirectory(prefix="sluice-") as own:
            files, as_read, as_written = _by_day(read, source.columns, Path(own), hide)
            kept = [keep(path, f"{DAY}={day}/{number:05}-{path.name}") for day, path in files]
        if _total(kept) != as_written:
            raise damaged("What was written", f"it holds {_total(kept)}, and not {as_written}")
        count.add(as_read.rows)
        done.add(1)
        return kept, as_read

    ended = work.each("write", list(enumerate(parts)), task, lambda: (done.value, count.value))
    tally = Tally(sum(one.rows for _, one in ended), sum(one.sum for _, one in ended))
    return [file for files, _ in ended for file in files], tally


def _total(files: Iterable[FileEntry]) -> Tally:
    kept = list(files)
    return Tally(sum(file["rows"] for file in kept), sum(file["sum"] for file in kept))


def _by_day(
    read: Iterable[Row], columns: Sequence[Column], folder: Path, hide: Hide | None
) -> tuple[list[tuple[str, Path]], Tally, Tally]:
    """Write rows, whose last value is their day, into files of one day each.

    Also their tallies: as they were read, and as they were written.
    """
    files: list[tuple[str, Path]] = []
    writers: dict[str, arrow.Writer] = {}
    count = as_read = as_written = 0
    with ExitStack() as stack:
        for *values, day in read:
            if day not in writers:
                if len(writers) >= DAYS_AT_ONCE:
                    writers.pop(next(iter(writers))).close()
                path = folder / f"{len(files):05}.parquet"
                files.append((day, path))
                metadata = {} if hide is None else MASKED
                writers[day] = stack.enter_context(arrow.Writer(path, columns, metadata))
            shown = values if hide is None else hide(values)
            writers[day].add(shown)
            sums = summed(digest(values)), summed(digest(shown))
            count, as_read, as_written = count + 1, as_read + sums[0], as_written + sums[1]
    return files, Tally(count, as_read), Tally(count, as_written)
