"""The same job under spark-submit, on a cluster: a master and a worker of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyspark
import pytest
from django.conf import settings

from crontasks.bulk.asking import ask
from crontasks.bulk.telling import arguments_of
from devstack import ports
from integration.models import BulkRun, MessageError, Queue, StoredObject
from tests.support.archives import an_archive, archived_ids, manifests_of, some_failures
from tests.support.builders import a_queue
from tests.support.bulk import a_csv, an_asset_structure, an_import, storing
from tests.support.celery_world import ROOT
from tests.support.flows import drain
from tests.support.kafka_world import Kafka
from tests.support.spark_driver import eventually
from tests.support.world.models import Effect

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
HOME: Final = Path(pyspark.__file__).parent
HERE: Final = "127.0.0.1"
DEPLOY: Final = "org.apache.spark.deploy"
ROWS, BAD = 3_000, 30


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a master that has a worker with one core; all of it on loopback."""
    port = ports.choose()
    address = f"spark://{HERE}:{port}"
    pages = "--webui-port", "0"
    started = [
        _daemon(tmp_path, "master.Master", "--host", HERE, "--port", str(port), *pages),
        _daemon(
            tmp_path,
            "worker.Worker",
            *("--host", HERE, *pages, "--cores", "1", "--memory", "600m"),
            *("--work-dir", str(tmp_path / "work"), address),
        ),
    ]
    try:
        eventually(lambda: "Registering worker" in (tmp_path / "master.Master.log").read_text())
        yield address
    finally:
        for one in started:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait(30)


def _daemon(folder: Path, name: str, *words: str) -> "subprocess.Popen[bytes]":
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [HOME / "bin" / "spark-class", f"{DEPLOY}.{name}", *words],
            env={**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": HERE},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@pytest.fixture
def queue(servers: Any) -> Queue:
    return storing(a_queue(Kafka(servers.kafka_bootstrap)), an_asset_structure())


def submitted(cluster: str, folder: Path, run: BulkRun, *words: str) -> list[dict[str, Any]]:
    """What spark-submit says of the run, a line each; the last is its report."""
    arguments = folder / "arguments.json"
    arguments.touch(0o600)
    arguments.write_text(arguments_of(run).written())
    done = subprocess.run(
        [
            HOME / "bin" / "spark-submit",
            *("--master", cluster, "--driver-memory", "512m", "--executor-memory", "512m"),
            *("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}", *words),
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
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, (lines[-1:], done.stderr[-3000:])
    assert "app-" in (folder / "master.Master.log").read_text(), "the cluster had a part in it"
    return lines


def test_an_import_runs_on_a_cluster_and_stores_every_row(
    cluster: str, tmp_path: Path, queue: Queue
) -> None:
    a_csv(tmp_path / "assets.csv", ROWS, bad=BAD)

    lines = submitted(cluster, tmp_path, an_import(tmp_path / "assets.csv", queue))

    report = lines[-1]["report"]
    counts = {"read": ROWS, "sent": ROWS - BAD, "rejected": BAD, "skipped": 0}
    assert {name: report[name] for name in counts} == counts
    assert any("plan" in line for line in lines)
    assert StoredObject.objects.count() == ROWS - BAD
    assert MessageError.objects.count() == BAD
    kept = BulkRun.objects.get()
    assert (kept.applied, kept.counts) == (True, counts)


def test_an_archive_runs_on_a_cluster_and_drops_what_its_files_hold(
    cluster: str, tmp_path: Path, queue: Queue, settings: Any
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    over = some_failures(queue, 500)
    some_failures(queue, 3, days=5)
    run = an_archive("failures")

    report = submitted(cluster, tmp_path, run)[-1]["report"]

    counts = {"read": 500, "sent": 500, "rejected": 0, "skipped": 0}
    assert {name: report[name] for name in counts} == counts
    assert sorted(archived_ids(run)) == sorted(str(row.pk) for row in over)
    assert sum(one["rows"] for one in manifests_of(run)) == 500
    assert MessageError.objects.count() == 3


def test_a_replay_runs_on_a_cluster_and_gives_every_message_back(
    cluster: str, tmp_path: Path, servers: Any
) -> None:
    """The cluster is told which jars it needs; the provider's settings come in the arguments."""
    broker = Kafka(servers.kafka_bootstrap)
    queue = a_queue(broker, partitions=2)
    for partition in (0, 1):
        broker.send(queue.topic, [{"n": n} for n in range(150)], partition=partition)
    drain(queue)
    run = ask("replay", {"queue": queue.name, "into": "queue"}, actor="tester", send=False)

    folder = settings.SLUICE_SPARK_JARS
    assert folder is not None
    jars = ",".join(map(str, sorted(folder.glob("*.jar"))))
    report = submitted(cluster, tmp_path, run, "--jars", jars)[-1]["report"]

    counts = {"read": 300, "sent": 300, "rejected": 0, "skipped": 0}
    assert {name: report[name] for name in counts} == counts
    assert MessageError.objects.filter(queue=queue, state="READY").count() == 300
    drain(queue)
    assert Effect.objects.count() == 600
    assert MessageError.objects.filter(queue=queue, state="RESOLVED").count() == 300
