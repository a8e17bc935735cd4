"""The configuration file of docs/from-maximo.md: the command takes it as it stands there."""

from pathlib import Path

import pytest

from crontasks.models import CronInstance
from devstack import paths
from integration.envelope.reading import body_of
from integration.models import Endpoint, EnterpriseService, Queue
from integration.paths import compile_path, key_of
from tests.functional.config_world import Config
from tests.support.tutorial import blocks

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

CONSUMERS = ("queue_consumer", "error_queue_consumer")
# As Maximo writes it, with its namespace.
ORDER = (
    '<SyncMXPO xmlns="http://www.ibm.com/maximo"><MXPOSet><PO><PONUM>4711</PONUM>'
    "<SITEID>BEDFORD</SITEID></PO></MXPOSet></SyncMXPO>"
)
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

    out = Queue.objects.filter(direction=Queue.Direction.OUTBOUND).order_by("name")
    assert [queue.retry_policy().max_retries for queue in out] == [None, 10]
    ends = Endpoint.objects.order_by("name")
    assert [queue.endpoint for queue in out] == list(ends)
    assert all(end.properties["private_network"] for end in ends)
    read = Queue.objects.get(kind=Queue.Kind.CONTINUOUS)
    assert read.error_queue == Queue.objects.get(is_error_queue=True)
    structure = EnterpriseService.objects.get(interface="MXPOInterface").structure
    assert structure is not None
    keys = [compile_path(path) for path in structure.key_paths]
    assert key_of(keys, body_of(ORDER)) == '["4711","BEDFORD"]'
    consumed = CronInstance.objects.filter(task__in=CONSUMERS).values_list("queue", flat=True)
    assert set(consumed) == set(Queue.objects.values_list("pk", flat=True))
