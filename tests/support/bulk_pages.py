"""The console's pages of bulk jobs for tests: a folder, a structure, runs as drivers leave them."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.models import BulkRun, MessageError, ObjectStructure, Queue
from tests.support.rows import a_held, a_person, a_queue_row

SCHEMA = {
    "type": "object",
    "properties": {
        "assetnum": {"type": "string"},
        "siteid": {"type": "string", "enum": ["BEDFORD"]},
        "facts": {"type": "object", "properties": {"weight": {"type": "integer"}}},
    },
    "required": ["assetnum", "siteid"],
}


def logged_in(role: str = "Operators", **client: Any) -> Client:
    found = Client(**client)
    found.force_login(a_person(role))
    return found


def assets(**fields: Any) -> Queue:
    """A structure for assets, and a queue for what is rejected."""
    ObjectStructure.objects.get_or_create(
        name="ASSET",
        defaults={"key_paths": ["$.assetnum", "$.siteid"], "json_schema": SCHEMA},
    )
    return a_queue_row("continuous", **{"name": "assets-in", **fields})


def a_file(root: Path, name: str, text: str) -> Path:
    place = root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def a_run(queue: Queue | None = None, **fields: Any) -> BulkRun:
    """A run of an import that waits, unless the fields say more."""
    values: dict[str, Any] = {
        "job": "import",
        "job_request": {"source": "/elsewhere/assets.csv", "structure": "ASSET"},
        "queues": [] if queue is None else [queue.pk],
        "actor": "otto",
        "asked_at": timezone.now(),
    }
    return BulkRun.objects.create(**(values | fields))


def a_running(queue: Queue | None = None, *, ago: float = 10, **progress: Any) -> BulkRun:
    """A run whose driver was heard of a moment ago, and began so many seconds before."""
    now = timezone.now()
    told = {
        "stage": "stage",
        "done": 40,
        "total": 100,
        "rows": 4_000,
        "at": now.isoformat(),
        "since": (now - timedelta(seconds=ago)).isoformat(),
        "done_before": 0,
        "rows_before": 0,
    }
    return a_run(
        queue,
        state="RUNNING",
        started_at=now - timedelta(seconds=ago),
        lease_until=now + timedelta(seconds=20),
        owner="host:7",
        epoch=1,
        plan={"files": []},
        progress=told | progress,
    )


def a_reject(run: BulkRun, queue: Queue, place: int, **fields: Any) -> MessageError:
    values = {"code": "MISSING_VALUE", "text": "SITEID is empty.", "fingerprint": "f" * 16}
    return a_held(queue, place, topic_uuid=str(run.pk), **(values | fields))


def see(client: Client, run: BulkRun) -> str:
    answer = client.get(reverse("bulk-run", args=[run.pk]))
    assert answer.status_code == 200
    return " ".join(answer.text.split())


def act(client: Client, run: BulkRun, verb: str, **form: Any) -> Any:
    return client.post(reverse(f"bulk-{verb}", args=[run.pk]), form)


def new(client: Client, job: str = "import", form: Mapping[str, Any] | None = None) -> Any:
    """What a form of a new run answers to a POST."""
    return client.post(reverse("bulk-new", args=[job]), form or {})
