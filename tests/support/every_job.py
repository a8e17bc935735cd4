"""One small run of each bulk job, whichever way it is asked for, and what is in its target then."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from django.db import connection
from django.utils import timezone

from crontasks import ticks
from crontasks.models import CronInstance
from integration.models import BulkRun, MessageError, ObjectStructure, Queue, StoredObject
from tests.support.archives import archived_ids, some_failures
from tests.support.builders import a_queue
from tests.support.bulk import COLUMNS, a_csv, an_asset_structure, storing
from tests.support.bulk_pages import logged_in, new
from tests.support.exports import a_plain_queue, lines_of, some_documents
from tests.support.flows import drain, drain_past, effects
from tests.support.kafka_world import Kafka
from tests.support.repairs import SITE, released, some_assets

ROWS, BAD = 100, 3


class World(NamedTuple):
    """Kafka, and the folder that the web and the drivers share."""

    broker: Kafka
    root: Path


class Asked(NamedTuple):
    """What is asked for, what it should come to, and who counts it in the target.

    `there` counts (rows in the target, rejects where rejects end); it may be asked once.
    """

    job: str
    job_request: Mapping[str, Any]
    sent: int
    rejected: int
    there: Callable[[BulkRun], tuple[int, int]]

    def holds(self, run: BulkRun) -> None:
        """Its numbers, and the rows themselves."""
        counts = {"read": ROWS, "sent": self.sent, "rejected": self.rejected, "skipped": 0}
        assert run.counts == counts
        assert self.there(run) == (self.sent, self.rejected)


def import_into_a_structure(world: World) -> Asked:
    queue = a_queue(world.broker)
    an_asset_structure()
    job_request = _assets(world, queue, structure="ASSET")
    return Asked("import", job_request, ROWS - BAD, BAD, lambda _: _stored())


def import_into_a_queue(world: World) -> Asked:
    queue = storing(a_queue(world.broker, dedupe=True), an_asset_structure())

    def there(_: BulkRun) -> tuple[int, int]:
        drain_past(queue, ROWS - BAD)
        return _stored()

    return Asked("import", _assets(world, queue, queue=queue.name), ROWS - BAD, BAD, there)


def export_into_files(world: World) -> Asked:
    some_documents(an_asset_structure(), ROWS)
    job_request = {"what": "documents", "structure": "ASSET"}
    return Asked("export", job_request, ROWS, 0, lambda run: (len(set(lines_of(run))), 0))


def export_into_a_queue(world: World) -> Asked:
    some_documents(an_asset_structure(), ROWS)
    copy = ObjectStructure.objects.create(name="COPY", key_paths=["$.num"])
    queue = storing(a_queue(world.broker, dedupe=True), copy)
    job_request = {"what": "documents", "structure": "ASSET", "into_queue": queue.name}

    def there(_: BulkRun) -> tuple[int, int]:
        drain_past(queue, ROWS)
        return _stored(copy)

    return Asked("export", job_request, ROWS, 0, there)


def reconcile(world: World) -> Asked:
    """Of some messages the tracks are gone, and of others of their batch not: they are lost."""
    queue = a_queue(world.broker)
    world.broker.send(queue.topic, [{"n": n} for n in range(ROWS)])
    drain_past(queue, ROWS)
    with connection.cursor() as cursor:
        cursor.execute('DELETE FROM integration_messagetrack WHERE "offset" < %s', [BAD])
    file = world.root / "reports" / "named.jsonl"

    def there(run: BulkRun) -> tuple[int, int]:
        return run.facts["fates"]["applied"], len(file.read_text().splitlines())

    job_request = {"queue": queue.name, "file": file.name}
    return Asked("reconcile", job_request, ROWS - BAD, BAD, there)


def repair(world: World) -> Asked:
    queue = storing(a_queue(world.broker), an_asset_structure())
    some_assets(queue, ROWS - BAD)
    some_assets(queue, BAD, first=ROWS, payload=b"<xml/>")

    def there(run: BulkRun) -> tuple[int, int]:
        released(run, queue)
        return _stored()

    return Asked("repair", {"recipe": SITE, "queue": queue.name}, ROWS - BAD, BAD, there)


def replay(world: World) -> Asked:
    """Each message goes through its handler once more."""
    queue = a_queue(world.broker)
    world.broker.send(queue.topic, [{"n": n} for n in range(ROWS)])
    drain_past(queue, ROWS)

    def there(_: BulkRun) -> tuple[int, int]:
        assert effects() == list(range(ROWS)), "nothing is applied before the queue runs"
        drain(queue)
        times = Counter(effects())
        again = sum(times[n] == 2 for n in range(ROWS))
        return again, MessageError.objects.exclude(state="RESOLVED").count()

    return Asked("replay", {"queue": queue.name, "into": "queue"}, ROWS, 0, there)


def archive(world: World) -> Asked:
    """What closed a hundred days ago goes; what closed five days ago stays."""
    queue = a_plain_queue("orders")
    some_failures(queue, ROWS)
    some_failures(queue, BAD, days=5)

    def there(run: BulkRun) -> tuple[int, int]:
        return len(set(archived_ids(run))), MessageError.objects.count() - BAD

    return Asked("archive", {"kind": "failures"}, ROWS, 0, there)


CASES: Final = (
    import_into_a_structure,
    import_into_a_queue,
    export_into_files,
    export_into_a_queue,
    reconcile,
    repair,
    replay,
    archive,
)


def ask_by_schedule(asked: Asked) -> CronInstance:
    """Let a schedule ask for it that is due an hour from now."""
    instance = CronInstance.objects.create(
        name="nightly",
        task="bulk_job",
        interval_seconds=3_600,
        parameters={"job": asked.job, "job_request": json.dumps(asked.job_request)},
    )
    ticks.tick(instance.pk, timezone.now() + timedelta(hours=1))
    return instance


def asked_in_the_console(asked: Asked) -> BulkRun:
    """Ask for it as somebody does who has looked first."""
    run = uuid4()
    said = {"job_request": json.dumps(asked.job_request), "reason": "agreed"}
    answer = new(logged_in("Editors"), asked.job, {"ask": "1", "run": str(run), **said})
    assert answer.status_code == 303, answer.text
    return BulkRun.objects.get(pk=run)


def _assets(world: World, rejects: Queue, /, **more: str) -> dict[str, Any]:
    source = world.root / "assets.csv"
    a_csv(source, ROWS, bad=BAD)
    said = {"source": str(source), "rejects_queue": rejects.name, "columns": COLUMNS}
    return {**said, **more}


def _stored(structure: ObjectStructure | None = None) -> tuple[int, int]:
    """Documents that are there, each written once, and failures that wait for somebody."""
    found = StoredObject.objects.filter(version=1)
    if structure is not None:
        found = found.filter(structure=structure)
    return found.count(), MessageError.objects.filter(state="HOLD").count()
