"""The configuration file of docs/from-maximo.md: the command takes it as it stands there."""

import sys
from pathlib import Path

import pytest

from crontasks.models import CronInstance
from devstack import paths
from integration.envelope.reading import body_of
from integration.http_api.routes import queue_for
from integration.models import Endpoint, EnterpriseService, ExternalSystem, Provider, Queue
from integration.paths import compile_path, key_of
from tests.functional.config_world import Config
from tests.support.http_api import forget
from tests.support.tutorial import blocks

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("unanswered")]

CONSUMERS = ("queue_consumer", "error_queue_consumer")
# As Maximo writes it, with its namespace.
ORDER = (
    '<{root} xmlns="http://www.ibm.com/maximo"><MXPOSet><PO><PONUM>4711</PONUM>'
    "<SITEID>BEDFORD</SITEID></PO></MXPOSet></{root}>"
)
ROOTS = ("SyncMXPO", "CreateMXPO", "PublishMXPO")
ASSET = (
    '<SyncMXASSET xmlns="http://www.ibm.com/maximo"><MXASSETSet><ASSET><ASSETNUM>11200</ASSETNUM>'
    "<SITEID>BEDFORD</SITEID></ASSET></MXASSETSet></SyncMXASSET>"
)
# The queue that a post to /esqueue/EXTSYS1/<service> goes to.
POSTED_TO = {
    "MXASSETInterface": "extsys1-sqin",
    "MXITEMInterface": "extsys1-cqin",
    "MXPOInterface": "extsys1-cqin",
}
PAGE = paths.ROOT / "docs" / "from-maximo.md"
SECRETS = ("KAFKA_PASSWORD", "BROKER_PASSWORD", "EXTSYS1_PASSWORD")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in SECRETS:
        monkeypatch.setenv(name, f"value-of-{name}")
    return Config(tmp_path)


def key_in(interface: str, document: str) -> object:
    """The key that the structure of this service finds in the document."""
    structure = EnterpriseService.objects.get(interface=interface).structure
    assert structure is not None
    return key_of([compile_path(path) for path in structure.key_paths], body_of(document))


def test_the_file_of_the_page_for_maximo_is_planned_and_applied(config: Config) -> None:
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
    read = Queue.objects.get(name="extsys1-cqin")
    assert read.error_queue == Queue.objects.get(is_error_queue=True)
    orders = {key_in("MXPOInterface", ORDER.format(root=root)) for root in ROOTS}
    assert orders == {'["4711","BEDFORD"]'}
    assert key_in("MXASSETInterface", ASSET) == '["11200","BEDFORD"]'
    at_broker = Queue.objects.get(provider__kind=Provider.Kind.JMS)
    assert at_broker.start_from == Queue.StartFrom.BEGINNING
    system = ExternalSystem.objects.get(name="EXTSYS1")
    forget()
    services = EnterpriseService.objects.values_list("interface", flat=True)
    taking = {name: queue_for(system.pk, system.name, name).name for name in services}
    assert taking == POSTED_TO
    assert CronInstance.objects.get(queue=at_broker).interval_seconds == 30
    consumed = CronInstance.objects.filter(task__in=CONSUMERS).values_list("queue", flat=True)
    assert set(consumed) == set(Queue.objects.values_list("pk", flat=True))


def test_a_broker_that_needs_a_library_which_is_missing_is_named(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "proton", None)
    code, said = config("apply", text=blocks(PAGE)["maximo.yaml"])
    assert code == 0, said
    broker = Provider.objects.get(kind=Provider.Kind.JMS)
    assert f"provider {broker.name}: JMS_LIBRARY_MISSING: " in said
