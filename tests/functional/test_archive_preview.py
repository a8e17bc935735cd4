"""What an archive would take, told without Spark: nothing is written or removed."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from crontasks.bulk.asking import preview
from integration.models import BulkRun, MessageError
from tests.support.archives import DAY, fill, some_failures, some_runs
from tests.support.exports import a_plain_queue

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def test_a_look_first_counts_and_takes_nothing(tmp_path: Path, settings: Any) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    queue = a_plain_queue("orders")
    some_failures(queue, 30)
    fill(queue, timezone.now() - 60 * DAY, 25)
    some_runs(5, keep=2)
    for kind, rows in (("failures", 30), ("messages", 25), ("runs", 3)):
        found = preview("archive", {"kind": kind, "older_than_days": 30})
        assert (found.rows, len(found.samples)) == (rows, min(rows, 20))
        assert found.facts == {"tables": 1, "counted": True}
        assert "payload" not in json.loads(found.samples[0].text)
    assert preview("archive", {"kind": "failures", "older_than_days": 400}).rows == 0
    assert MessageError.objects.count() == 30
    assert not BulkRun.objects.exists()
    assert list(tmp_path.iterdir()) == []
