"""Each job under spark-submit, on a cluster: a master and a worker of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyspark
import pytest

from crontasks.bulk.asking import arguments_of, ask
from devstack import ports
from integration.models import BulkRun
from spark_jobs.running import JOBS
from tests.support.bulk import SPARK
from tests.support.celery_world import ROOT
from tests.support.class_archive import USED
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
ON_A_CLUSTER: Final = (
    import_into_a_structure,
    export_into_a_queue,
    reconcile,
    repair,
    replay,
    archive,
)


class Cluster(NamedTuple):
    """The address of a master that has a worker with one core; all of it on loopback."""

    address: str
    log: Path

    @property
    def applications(self) -> int:
        return self.log.read_text().count("Registered app ")


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
            *("--host", HERE, *pages, "--cores", "1", "--memory", "600m"),
            *("--work-dir", str(folder / "work"), address),
        ),
    ]
    known = Cluster(address, folder / "master.Master.log")
    try:
        eventually(lambda: "Registering worker" in known.log.read_text())
        yield known
    finally:
        for one in started:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait(30)


def _daemon(folder: Path, name: str, *words: str) -> "subprocess.Popen[bytes]":
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [HOME / "bin" / "spark-class", f"{DEPLOY}.{name}", *words],
            env={
                **os.environ,
                "SPARK_DAEMON_JAVA_OPTS": USED,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_LOCAL_IP": HERE,
            },
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def submitted(cluster: Cluster, run: BulkRun, folder: Path) -> list[dict[str, Any]]:
    """What it printed, line by line; it ended well."""
    arguments = folder / "arguments.json"
    arguments.touch(0o600)
    arguments.write_text(arguments_of(run).written())
    jars = ",".join(map(str, sorted((SPARK.jars or HOME).glob("*.jar"))))
    done = subprocess.run(
        [
            HOME / "bin" / "spark-submit",
            *("--master", cluster.address),
            *("--driver-memory", "512m", "--executor-memory", "512m", "--jars", jars),
            *("--driver-java-options", USED),
            *("--conf", f"spark.executor.extraJavaOptions={USED}"),
            *("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}"),
            *(str(ROOT / "spark_jobs" / "__main__.py"), str(arguments)),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": HERE,
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_every_job_is_submitted() -> None:
    assert {case.__name__.partition("_")[0] for case in ON_A_CLUSTER} == set(JOBS)


@pytest.mark.parametrize("case", ON_A_CLUSTER, ids=lambda case: case.__name__)
def test_it_runs_on_a_cluster_to_the_last_row(
    cluster: Cluster, tmp_path: Path, world: World, case: Callable[[World], Asked]
) -> None:
    asked = case(world)
    run = ask(asked.job, asked.job_request, actor="tester", reason="agreed", send=False)
    before = cluster.applications

    lines = submitted(cluster, run, tmp_path)

    assert cluster.applications == before + 1, "the cluster had a part in it"
    assert any("plan" in line for line in lines)
    report = lines[-1]["report"]
    run.refresh_from_db()
    assert run.applied is (asked.job != "reconcile"), "it writes nothing"
    run.counts = {name: report[name] for name in ("read", "sent", "rejected", "skipped")}
    run.facts = report["facts"]
    asked.holds(run)
