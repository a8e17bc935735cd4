"""Bulk runs for tests: a structure, a queue that stores into it, files, and a Spark session."""

import csv
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import connection

from crontasks.bulk.asking import ask
from crontasks.bulk.driving import drive
from integration.models import BulkRun, EnterpriseService, ObjectStructure, Queue, StoredObject
from spark_jobs.session import SessionSettings, open_session
from tests.support import class_archive
from tests.support.spark_room import room

# How Spark's JVMs run in tests.
JAVA: Final = f'{class_archive.USED} "-Djava.io.tmpdir={room()}"'
SPARK: Final = SessionSettings(
    master="local[2,4]",
    memory_mb=768,
    jars=settings.SLUICE_SPARK_JARS,
    extra={
        **class_archive.QUICK,
        "spark.driver.extraJavaOptions": JAVA,
        "spark.local.dir": str(room()),
        "spark.python.daemon.module": "tests.support.python_daemon",
    },
)
# The same for a driver in a process of its own.
SPARK_ENVIRONMENT: Final = {
    "SLUICE_SPARK_MASTER": SPARK.master,
    "SLUICE_SPARK_MEMORY_MB": str(SPARK.memory_mb),
    "SLUICE_SPARK_CONF": json.dumps(SPARK.extra),
}
# Every start of Spark first runs a JVM that finds out how.
os.environ["SPARK_LAUNCHER_OPTS"] = class_archive.SHORT_LIVED
COLUMNS: Final = "ASSETNUM=assetnum!\nSITEID=siteid!\nWEIGHT=weight:integer"
NAMES: Final = ("ASSETNUM", "SITEID", "WEIGHT")


# Tests look at its pages and at its event log, and to start another one for them takes longer.
_SHARED: Final = {
    **SPARK.extra,
    "spark.ui.enabled": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


def event_log() -> Path:
    """The folder in which the shared session logs its events."""
    folder = room() / "events"
    folder.mkdir(exist_ok=True)
    return folder


def shared_session() -> Any:
    """The one Spark session of this tester: the file that comes next goes on with it."""
    extra = {**_SHARED, "spark.eventLog.dir": event_log().as_uri()}
    return open_session(replace(SPARK, extra=extra))


def an_asset_structure(**fields: Any) -> ObjectStructure:
    paths = ["$.assetnum", "$.siteid"]
    return ObjectStructure.objects.create(**{"name": "ASSET", "key_paths": paths, **fields})


def storing(queue: Queue, structure: ObjectStructure) -> Queue:
    """The queue, with a service that stores what it is sent into the structure."""
    service = EnterpriseService.objects.create(interface="MXASSET", structure=structure)
    Queue.objects.filter(pk=queue.pk).update(default_service=service)
    queue.refresh_from_db()
    return queue


def a_csv(path: Path, count: int, *, bad: int = 0, first: int = 0) -> set[int]:
    """So many assets; of those whose numbers are returned the site is missing."""
    numbers = range(first, first + count)
    wrong = set(random.Random(first).sample(numbers, bad))
    with path.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(NAMES)
        for number in numbers:
            site = "" if number in wrong else "BEDFORD"
            writer.writerow([f"A-{number}", site, number])
    return wrong


def an_import(source: Path | str, queue: Queue, /, *, send: bool = False, **more: Any) -> BulkRun:
    """A run that the test drives itself, unless it is sent to the Spark driver."""
    job_request = {
        "source": str(source),
        "format": "csv",
        "structure": "ASSET",
        "rejects_queue": queue.name,
        "columns": COLUMNS,
        **more,
    }
    return ask("import", job_request, actor="tester", send=send)


def driven(run: BulkRun) -> BulkRun:
    """Drive it here, to its end."""
    ended = drive(run.pk, owner="a test")
    assert ended is not None
    return ended


def stored() -> set[str]:
    """The numbers of the assets that are stored."""
    return {json.loads(key)[0] for key in StoredObject.objects.values_list("key", flat=True)}


def stages(run: BulkRun) -> list[str]:
    """The tables of a run that are still there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE starts_with(tablename, %s)",
            [f"bulk_{run.pk.hex}_"],
        )
        return [name for (name,) in cursor.fetchall()]
