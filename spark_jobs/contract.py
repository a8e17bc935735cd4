"""The contract of jobs: the request, reports meanwhile, the answer: JSON in, JSON lines out.

The same job so runs in the driver that Sluice keeps, under `python -m spark_jobs` and under
`spark-submit` on a cluster. Secrets travel in the arguments, which are a file of the job's own
or its standard input, and never on a command line.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from spark_jobs.errors import JobError

VERSION: Final = 1
# Of a preview so many rows are shown.
SAMPLES: Final = 20


class JobState(StrEnum):
    """The ending of a job."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """One run of a job.

    `database` is a libpq connection string. `kafka` are the settings of a Kafka client as
    librdkafka names them, `storage` the fields of `storage.Storage`. `plan` is what was planned for
    this run; an empty one is made first, and stored, so that whoever asks again reads the same.
    `epoch` is the number under which a driver took the run: one that lost it writes nothing any
    more.
    """

    job: str
    run: str
    parameters: Mapping[str, Any]
    database: str
    kafka: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    epoch: int | None = None

    @staticmethod
    def read(text: str) -> "Arguments":
        """The inverse of `written`. Raises JobError BAD_ARGUMENTS."""
        try:
            facts = json.loads(text)
            if facts.pop("version") != VERSION:
                raise _bad(f"they are not of version {VERSION}")
            return Arguments(**facts)
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise _bad(str(e)) from e

    def written(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a job. `done` of `total` are units of the stage's own work.

    `skipped` units of `total` need no work at all: they are no part of the way. `stages` are those
    that this run goes through, in their order; a job of one stage need not name it.
    """

    stage: str
    done: int
    total: int
    rows: int = 0
    skipped: int = 0
    stages: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a job. Every row that was read was sent, rejected or skipped, and only once.

    `problem` is (code, text, next step) of a job that failed. `facts` are the job's own.
    """

    job: str
    run: str
    state: JobState
    read: int = 0
    sent: int = 0
    rejected: int = 0
    skipped: int = 0
    problem: tuple[str, str, str] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One row of a preview: where it is, what would become of it and why, and its text.

    `ends` is a word of the job's own, such as "stored" or "rejected"; `code` is empty unless
    something is wrong with the row.
    """

    place: str
    ends: str
    text: str
    code: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The preview of a run: its first rows, at most SAMPLES, and how many there are.

    `rows` and `bytes` are estimates; None where nothing tells them. `columns` are the names that a
    source has, for whoever writes the map. `facts` are the job's own.
    """

    samples: Sequence[Sample] = ()
    rows: int | None = None
    bytes: int | None = None
    columns: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class Tell:
    """The line to the asker: a job says how far it is, what it planned, and asks if it may go on.

    What it planned is refused by JobError RUN_TAKEN where another driver has the run by now.
    """

    def progress(self, progress: Progress) -> None:
        """Say how far it is."""

    def planned(self, plan: Mapping[str, Any]) -> None:
        """Say what it will read, before it reads."""

    def say(self, line: str) -> None:
        """Say one sentence for the run's log: what begins, what was found."""

    def go_on(self) -> None:
        """Raise Stopped when somebody cancelled it, JobError when another driver has it."""


Heed = Callable[[Progress | None], None]
"""Called by long work between its steps, with how far it is if it knows; may raise as `go_on`."""


def unheeded(_: Progress | None) -> None:
    """Nobody listens: it is done to its end."""


class Lines(Tell):
    """Tells by JSON lines: {"progress": …}, {"plan": …}, {"log": …}, at last {"report": …}."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def progress(self, progress: Progress) -> None:
        self._line("progress", asdict(progress))

    def planned(self, plan: Mapping[str, Any]) -> None:
        self._line("plan", dict(plan))

    def say(self, line: str) -> None:
        self._line("log", {"line": line})

    def report(self, report: Report) -> None:
        self._line("report", asdict(report))

    def preview(self, preview: Preview) -> None:
        self._line("preview", asdict(preview))

    def _line(self, name: str, facts: Mapping[str, Any]) -> None:
        self._write(json.dumps({name: facts}) + "\n")


def _bad(why: str) -> JobError:
    return JobError(
        "BAD_ARGUMENTS",
        f"The arguments of the job cannot be read: {why}.",
        "Let Sluice write them, or compare them with spark_jobs/contract.py.",
    )
