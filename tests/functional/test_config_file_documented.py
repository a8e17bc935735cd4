"""The configuration file of docs/from-maximo.md: the command takes it as it stands there."""

from pathlib import Path

import pytest

from crontasks.models import CronInstance
from devstack import paths
from integration.models import Endpoint, Queue
from tests.functional.config_world import Config
from tests.support.tutorial import blocks

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

PAGE = paths.ROOT / "docs" / "from-maximo.md"


def test_the_file_of_the_page_for_maximo_is_planned_and_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "of-the-cluster")
    monkeypatch.setenv("EXTSYS1_PASSWORD", "of-the-partner")
    config = Config(tmp_path)

    code, said = config("plan", text=blocks(PAGE)["maximo.yaml"])
    assert code == 2, said
    code, said = config("apply")
    assert code == 0, said
    assert config("plan") == (0, "No changes.\n")

    out = Queue.objects.get(direction=Queue.Direction.OUTBOUND)
    assert out.retry_policy().max_retries is None
    assert out.endpoint == Endpoint.objects.get()
    consumed = CronInstance.objects.filter(task="queue_consumer").values_list("queue", flat=True)
    assert set(consumed) == set(Queue.objects.values_list("pk", flat=True))
