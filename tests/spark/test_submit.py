"""Each job under spark-submit, on a cluster: a master and a worker of their own.

To save the start of ten JVMs one application runs all of them; the last is run, and the
application ended, by the very program that production submits.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import pyspark
import pytest

from crontasks.bulk.asking import arguments_of, ask
from devstack import ports
from integration.models import BulkRun
from spark_jobs.running import JOBS
from tests.support import submitted
from tests.support.bulk import JAVA, SPARK
from tests.support.celery_world import ROOT
from tests.support.class_archive import QUICK
from tests.support.every_job import (
    Asked,
    World,
    archive,
    export_into_a_queue,
    import_into_a_structure,
    reconcile,
    repair,
    replay,
)
from tests.support.spark_driver import eventually
from tests.support.spark_room import room

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.timeout(500),
]
HOME: Final = Path(pyspark.__file__).parent
HERE: Final = "127.0.0.1"
DEPLOY: Final = "org.apache.spark.deploy"
# Each job, and each kind of target: the database, a queue, a file that tasks write.
ALONE: Final = import_into_a_structure
TOGETHER: Final = (
    export_into_a_queue,
    reconcile,
    repair,
    replay,
    archive,
)


class Cluster(NamedTuple):
    """The address of a master that has a worker with two cores; all of it on loopback."""

    address: str
    log: Path

    @property
    def applications(self) -> int:
        return self.log.read_text().count("Registered app ")


class Application(NamedTuple):
    """A submitted one that runs a job after the other; its files' names go into a pipe."""

    cluster: Cluster
    names: IO[str]
    out: Path
    errors: Path
    process: "subprocess.Popen[bytes]"

    def run(self, arguments: Path, mark: str = "") -> list[dict[str, Any]]:
        """What it printed of this job, line by line."""
        before = self.out.stat().st_size
        self.names.write(f"{mark}{arguments}\n")
        self.names.flush()

        def told() -> list[dict[str, Any]]:
            has_ended = self.process.poll() is not None
            lines = _lines(self.out.read_bytes()[before:].decode())
            is_told = bool(lines) and "report" in lines[-1]
            assert is_told or not has_ended, self.errors.read_text()[-3000:]
            return lines if is_told else []

        return eventually(told)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder, port = tmp_path_factory.mktemp("cluster"), ports.choose()
    address = f"spark://{HERE}:{port}"
    pages = "--webui-port", "0"
    started = [
        _daemon(folder, "master.Master", "--host", HERE, "--port", str(port), *pages),
        _daemon(
            folder,
            "worker.Worker",
            *("--host", HERE, *pages, "--cores", "2", "--memory", "1200m"),
            *("--work-dir", str(folder / "work"), address),
        ),
    ]
    known = Cluster(address, folder / "master.Master.log")
    try:
        eventually(lambda: "Registering worker" in known.log.read_text())
        yield known
    finally:
        for one in started:
            _end(one)


@pytest.fixture(scope="module")
def application(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("application")
    pipe, out, errors = (folder / name for name in ("names", "out.log", "errors.log"))
    os.mkfifo(pipe)
    with out.open("wb") as log, errors.open("wb") as other:
        process = subprocess.Popen(
            submission(cluster, ROOT / "tests" / "support" / "submitted.py", pipe),
            cwd=folder,
            env=environment(),
            stdout=log,
            stderr=other,
            start_new_session=True,
        )
    try:
        # Opened for reading, too, so that it opens before anybody reads.
        with os.fdopen(os.open(pipe, os.O_RDWR), "w") as names:
            yield Application(cluster, names, out, errors, process)
    finally:
        _end(process)


def _daemon(folder: Path, name: str, *words: str) -> "subprocess.Popen[bytes]":
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [HOME / "bin" / "spark-class", f"{DEPLOY}.{name}", *words],
            env={
                **os.environ,
                "SPARK_DAEMON_JAVA_OPTS": JAVA,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_LOCAL_DIRS": str(room()),
                "SPARK_LOCAL_IP": HERE,
            },
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(group: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(group.pid, signal.SIGKILL)
    group.wait(30)


def submission(cluster: Cluster, program: Path, *words: Path) -> list[str]:
    """A command that submits a program of Python; it takes one of the two cores."""
    jars = ",".join(map(str, sorted((SPARK.jars or HOME).glob("*.jar"))))
    return [
        str(HOME / "bin" / "spark-submit"),
        *("--master", cluster.address, "--total-executor-cores", "1"),
        *("--driver-memory", "512m", "--executor-memory", "512m", "--jars", jars),
        *("--driver-java-options", JAVA),
        *("--conf", f"spark.executor.extraJavaOptions={JAVA}"),
        *(word for name, value in QUICK.items() for word in ("--conf", f"{name}={value}")),
        *("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}"),
        *map(str, (program, *words)),
    ]


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_DIRS": str(room()),
        "SPARK_LOCAL_IP": HERE,
    }


def written(run: BulkRun, folder: Path) -> Path:
    """The run's arguments in a file."""
    arguments = folder / "arguments.json"
    arguments.touch(0o600)
    arguments.write_text(arguments_of(run).written())
    return arguments


def _lines(text: str) -> list[dict[str, Any]]:
    """Those whole lines of an output that are ours."""
    ours = (line for line in text.splitlines(keepends=True) if line.startswith("{"))
    return [json.loads(line) for line in ours if line.endswith("\n")]


def ask_for(asked: Asked) -> BulkRun:
    return ask(asked.job, asked.job_request, actor="tester", reason="agreed", send=False)


def holds(asked: Asked, run: BulkRun, lines: list[dict[str, Any]]) -> None:
    """What was told of the run, and the rows in its target."""
    assert any("plan" in line for line in lines)
    report = lines[-1]["report"]
    assert (report["state"], report["problem"]) == ("done", None)
    run.refresh_from_db()
    assert run.applied is (asked.job != "reconcile"), "it writes nothing"
    run.counts = {name: report[name] for name in ("read", "sent", "rejected", "skipped")}
    run.facts = report["facts"]
    asked.holds(run)


def test_every_job_is_submitted() -> None:
    assert {case.__name__.partition("_")[0] for case in (ALONE, *TOGETHER)} == set(JOBS)


@pytest.mark.parametrize("case", TOGETHER, ids=lambda case: case.__name__)
def test_each_runs_on_a_cluster_to_the_last_row(
    application: Application, tmp_path: Path, world: World, case: Callable[[World], Asked]
) -> None:
    asked = case(world)
    run = ask_for(asked)

    lines = application.run(written(run, tmp_path))

    assert application.cluster.applications == 1, "the cluster had a part in it"
    holds(asked, run, lines)


@pytest.mark.last
def test_the_program_that_is_shipped_runs_one_job_and_ends_its_application(
    application: Application, tmp_path: Path, world: World
) -> None:
    asked = ALONE(world)
    run = ask_for(asked)

    lines = application.run(written(run, tmp_path), mark=submitted.LAST)

    assert application.process.wait(60) == 0
    assert application.cluster.applications == 1, "the cluster had a part in it"
    holds(asked, run, lines)
