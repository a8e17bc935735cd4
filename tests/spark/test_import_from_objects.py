"""An import from an object storage on a real Spark: no shared folder, and no secret left behind."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core import serializers

from bench.object_storage import ACCESS_KEY, SECRET_KEY, ObjectStorage
from integration.models import BulkRun, ConfigurationChange, MessageError, Queue
from tests.support.bulk import (
    a_csv,
    an_import,
    driven,
    event_log,
    stored,
)

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
    pytest.mark.usefixtures("spark"),
]


def test_every_row_of_every_object_is_stored_or_a_failure_and_nothing_keeps_the_secret(
    object_storage: ObjectStorage,
    queue: Queue,
    tmp_path: Path,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.SLUICE_S3 = object_storage.settings
    settings.SLUICE_BULK_ROOT = None
    wrong: set[int] = set()
    for first in (0, 1_000):
        path = tmp_path / f"assets-{first}.csv"
        wrong |= a_csv(path, 1_000, bad=10, first=first)
        object_storage.put(f"whole/{path.name}", path.read_bytes())

    run = driven(an_import("s3a://plant/whole/assets-*.csv", queue))

    assert (run.problem, run.state) == (None, "DONE")
    assert run.counts == {"read": 2_000, "sent": 1_980, "rejected": 20, "skipped": 0}
    assert stored() == {f"A-{n}" for n in range(2_000)} - {f"A-{n}" for n in wrong}
    number = min(wrong)
    first_reject = MessageError.objects.get(
        payload=f'{{"assetnum":"A-{number}","weight":{number}}}'.encode()
    )
    assert f"Line {number + 2} of s3://plant/whole/assets-0.csv" in first_reject.detail
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in kept(run)
        assert secret not in caplog.text
        logs = [path for path in event_log().rglob("*") if path.is_file()]
        assert logs
        assert not [path for path in logs if secret.encode() in path.read_bytes()]


def kept(run: BulkRun) -> str:
    """All that the database has of the run."""
    rows = [run, *ConfigurationChange.objects.all(), *MessageError.objects.all()]
    return json.dumps(serializers.serialize("json", rows))


def test_a_storage_that_does_not_let_us_in_ends_the_run_and_says_so(
    object_storage: ObjectStorage, queue: Queue, settings: Any
) -> None:
    settings.SLUICE_S3 = {**object_storage.settings, "endpoint": "http://127.0.0.1:1"}
    run = driven(an_import("s3://plant/whole/assets-0.csv", queue))
    assert run.state == "FAILED"
    assert run.problem is not None
    assert run.problem[0] == "STORAGE_FAILED"
    assert SECRET_KEY not in kept(run)
    assert not stored()
