"""The bulk jobs there are, in the words of the people who start them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from crontasks.bulk.wishes import imports


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A job of `spark_jobs`.

    `prepare` makes of a person's wish (JSON: what a form, a command or a schedule says) what the
    job is told (JSON). Where the job reads or writes Kafka, what it makes has the provider's id as
    `provider`; where it needs an arrival number, `arrival` is 0 and drawn when the run is stored.
    It raises BulkError and JobError.
    """

    job: str
    title: str
    sentence: str
    prepare: Callable[[Mapping[str, Any]], dict[str, Any]]


CATALOGUE: Final[Mapping[str, Entry]] = {
    entry.job: entry
    for entry in (
        Entry(
            job="import",
            title="Import",
            sentence="Rows of files become documents of an object structure.",
            prepare=imports.prepare,
        ),
    )
}
