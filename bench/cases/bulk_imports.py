"""The speed at which rows of files come into the object store and a queue; on two processors."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from bench import sparkside, traffic, workload
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.rig import READY_SECONDS, BenchmarkError, Rig

ROWS: Final = 2_000_000
SENT_ROWS: Final = 1_000_000
QUICK_SHARE: Final = 20
# A run takes about a minute, so there are few; what is warmed up is a tenth of them.
IMPORT_PAIRS: Final = 2
PAIRS: Final = 3
WARM_SHARE: Final = 10
FILES: Final = 16
STRUCTURE: Final = "BENCH-ASSET"
# Two processes of Python and two of Java start at once.
WARM_SECONDS: Final = 3 * READY_SECONDS
INTERFACE: Final = "BenchAsset"
HAND_ARRIVAL: Final = 10**9
_STRUCTURE: Final = """
INSERT INTO integration_objectstructure (name, description, key_paths, version_path, tombstone)
VALUES (%s, '', %s, '', 'hold') RETURNING id
"""
_OF_SERVICE: Final = "UPDATE integration_enterpriseservice SET structure_id = %s"
_ENDED: Final = """
SELECT extract(epoch FROM ended_at - started_at)::float8, state, counts, problem
FROM integration_bulkrun WHERE id = %s AND ended_at IS NOT NULL
"""
_STORED: Final = """
SELECT count(*), sum(hashtextextended(key || ' ' || document::text, 0))
FROM integration_storedobject
"""
Side = Callable[[], float]


class Source(NamedTuple):
    """A folder of CSV files, and how many rows they have."""

    folder: Path
    rows: int

    @property
    def bad(self) -> int:
        return -(-self.rows // workload.ONE_BAD_IN)

    @property
    def good(self) -> int:
        return self.rows - self.bad


def spark_import(ground: Ground) -> Figure:
    """CSV rows into the object store: from the driver's taking the run to its end."""
    count = ROWS // QUICK_SHARE if ground.quick else ROWS
    with ground.rig("spark_import") as rig:
        sides = Sides(rig, count)
        ours, theirs = sides.imported, sides.loaded
        warm = sides.warm(ours, theirs)
        paired = run_pairs(ours, theirs, quick=ground.quick, pairs=IMPORT_PAIRS, warm=warm)
    return Figure(
        name="spark_import",
        value=paired.value,
        unit="rows/s",
        n=count,
        ratio=paired.ratio,
        against="hand-written job: Spark reads and judges, COPY into a stage, one upsert",
        target=at_least("ratio", 0.8),
        facts={**paired.facts, "rejected": sides.source.bad},
    )


def spark_to_queue(ground: Ground) -> Figure:
    """CSV rows into a topic, as envelopes, each delivery confirmed."""
    count = SENT_ROWS // QUICK_SHARE if ground.quick else SENT_ROWS
    with ground.rig("spark_to_queue") as rig:
        sides = Sides(rig, count)
        ours, theirs = sides.queued, sides.sunk
        warm = sides.warm(ours, theirs)
        paired = run_pairs(ours, theirs, quick=ground.quick, pairs=PAIRS, warm=warm)
    return Figure(
        name="spark_to_queue",
        value=paired.value,
        unit="rows/s",
        n=count,
        ratio=paired.ratio,
        against="Spark's own Kafka sink: rows judged by Spark, the last of each key, as envelopes",
        target=at_least("ratio", 0.6),
        facts=paired.facts,
    )


def spark_scale(ground: Ground) -> Figure:
    """The transform stage of an import, without sinks: on two processors against one."""
    count = SENT_ROWS // QUICK_SHARE if ground.quick else SENT_ROWS
    with ground.rig("spark_scale") as rig:
        rig.write(sparkside.TABLE)
        source = Source(workload.csv_files(rig.folder / "rows", count, FILES), count)
        one, two = _on(rig, 1, source), _on(rig, 2, source)
        paired = run_pairs(two, one, quick=ground.quick, pairs=PAIRS)
    return Figure(
        name="spark_scale",
        value=paired.value,
        unit="rows/s",
        n=count,
        ratio=paired.ratio,
        against="local[1]; rows of CSV are read and mapped, nothing is written",
        target=at_least("ratio", 1.3),
        facts=paired.facts,
    )


def _on(rig: Rig, cores: int, source: Source) -> Side:
    """The transform stage in a session of its own, as a rate."""
    process = rig.spawn(f"scale-{cores}", ["-m", "bench.sparkscale", str(cores)])
    parameters = {
        "source": str(source.folder),
        "format": "csv",
        "structure": {"name": STRUCTURE, "key_paths": _key_paths()},
        "arrival": 1,
        "rejects_queue": 1,
        "columns": [
            {"source": name, "target": name, "kind": kind, "required": required}
            for name, kind, required in workload.COLUMNS
        ],
    }

    def run() -> float:
        seconds, counts = sparkside.ask(rig, f"scale {cores}", process, parameters)
        if counts != {"sent": source.good, "rejected": source.bad}:
            raise BenchmarkError(f"on {cores} processors it counted {counts}")
        return source.rows / seconds

    return run


class Sides:
    """The shipped driver and the hand-written jobs, each with a warm session of its own."""

    def __init__(self, rig: Rig, count: int, environment: Mapping[str, str] | None = None) -> None:
        self.rig = rig
        # Where the same files lie as well, while they are imported from there.
        self.place = ""
        few = count // WARM_SHARE
        self.all = Source(workload.csv_files(rig.folder / "rows", count, FILES), count)
        self.source = Source(workload.csv_files(rig.folder / "few", few, FILES), few)
        self._became: dict[Path, object] = {}
        rig.write(sparkside.TABLE)
        # The benchmarks of one call share their Kafka.
        self.target, self.rejects = f"{rig.folder.name}-rows", f"{rig.folder.name}-rejects"
        self.structure = _configure(rig, self.target, self.rejects)
        self.ours = rig.start("spark", environment)
        self.theirs = rig.spawn("hand", ["-m", "bench.handspark"])
        is_warm = "SELECT 1 FROM crontasks_heartbeat WHERE queues = 'spark'"
        rig.until(lambda: rig.rows(is_warm), "the Spark driver is warm", WARM_SECONDS)

    def warm(self, ours: Side, theirs: Side) -> Callable[[], None]:
        """Let both sides do a tenth of the rows; all of them are the source from then on."""

        def act() -> None:
            theirs()
            ours()
            self.source = self.all

        return act

    # into the object store

    def imported(self) -> float:
        self._empty()
        rate = self._run("--structure", STRUCTURE)
        self._check_stored("integration_messageerror")
        return rate

    def loaded(self) -> float:
        self._empty()
        rate = self._hand({"structure": self.structure, "arrival": HAND_ARRIVAL})
        self._check_stored("hand_refused")
        return rate

    def _check_stored(self, refused: str) -> None:
        """Each good row is stored, by both sides to the last sign; each bad one is noted."""
        [(stored, digest)] = self.rig.rows(_STORED)
        noted = self.rig.value(f"SELECT count(*) FROM {refused}")
        if (stored, noted) != (self.source.good, self.source.bad):
            raise BenchmarkError(f"{stored:,} of {self.source.good:,} documents are stored")
        self._check_same(digest)

    # into a queue

    def queued(self) -> float:
        return self._sending(lambda: self._run("--queue", self.target))

    def sunk(self) -> float:
        request = {
            "topic": self.target,
            "interface": INTERFACE,
            "sender": "benchmarks",
            "destination": self.rig.environment.get("SLUICE_DEPLOYMENT", "sluice"),
        }
        return self._sending(lambda: self._hand(request))

    def _sending(self, act: Side) -> float:
        """Every good row is one record; while it is warmed up, these are read and compared."""
        self._empty()
        before = traffic.end_of(self.rig.bootstrap, self.target)
        rate = act()
        sent = traffic.end_of(self.rig.bootstrap, self.target) - before
        if sent != self.source.good:
            raise BenchmarkError(f"{sent:,} records were sent, not {self.source.good:,}")
        if self.source is not self.all:
            records = traffic.read(self.rig.bootstrap, self.target, before, sent)
            self._check_same(sorted(map(_without_id, records)))
        return rate

    # both

    def _run(self, *where: str) -> float:
        """Ask for an import at the command line, leave it to the driver, and wait for its end."""
        words = [
            self.place or str(self.source.folder),
            "--rejects-queue",
            self.rejects,
            "--leave",
            *where,
        ]
        for name, kind, required in workload.COLUMNS:
            words += ["--map", f"{name}={name}:{kind}{'!' if required else ''}"]
        run = json.loads(self.rig.manage("bulk_import", *words).splitlines()[-1])["run"]
        rows: list[tuple[Any, ...]] = []

        def is_over() -> bool:
            rows[:] = self.rig.rows(_ENDED, [run])
            return bool(rows)

        sparkside.await_it(self.rig, self.ours, is_over, "the import has ended")
        seconds, state, counts, problem = rows[0]
        read, good, bad = self.source.rows, self.source.good, self.source.bad
        if state != "DONE" or counts != {"read": read, "sent": good, "rejected": bad, "skipped": 0}:
            raise BenchmarkError(f"the import ended as {state} with {counts}: {problem}")
        return float(read / seconds)

    def _hand(self, parameters: Mapping[str, object]) -> float:
        request = {"source": str(self.source.folder), "run": str(uuid4()), **parameters}
        seconds, _ = sparkside.ask(self.rig, "hand", self.theirs, request)
        return self.source.rows / seconds

    def _empty(self) -> None:
        self.rig.write("TRUNCATE integration_storedobject")
        self.rig.write("TRUNCATE integration_messageerror CASCADE")
        self.rig.write("CHECKPOINT")

    def _check_same(self, became: object) -> None:
        if self._became.setdefault(self.source.folder, became) != became:
            raise BenchmarkError("what both sides made of the same rows is not the same")


def _configure(rig: Rig, *queues: str) -> int:
    """Queues that nobody reads, and the structure of their service; returns its id."""
    structure = int(rig.value(_STRUCTURE, [STRUCTURE, json.dumps(_key_paths())]))
    queue = {"kind": "continuous", "interface": INTERFACE, "enabled": False}
    named = [{"name": name, "topic": rig.topic(name)} for name in queues]
    rig.configure(*(queue | one for one in named))
    rig.write(_OF_SERVICE, [structure])
    return structure


def _key_paths() -> list[str]:
    return [f"$.{name}" for name in workload.KEY_COLUMNS]


def _without_id(record: tuple[bytes, bytes]) -> tuple[bytes, str]:
    """A record as both sides write it: a message's id has the run and the row's place in it."""
    key, value = record
    envelope = json.loads(value)
    if not envelope.pop("MEAMessageID"):
        raise BenchmarkError("a message has no id")
    return key, json.dumps(envelope)
