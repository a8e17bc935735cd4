"""The envelope that comes out, read by an independent Java client after the relay."""

import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from devstack import java
from devstack.kafka import JARS as KAFKA
from devstack.kafka import QUICK_START
from devstack.server import Server
from integration.handlers import publish
from integration.kafka import admin
from integration.models import Queue
from integration.runs.relay import run_relay
from tests.functional.relay_world import a_provider
from tests.support.channels import a_channel, a_target

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

READER = Path(__file__).parent.parent / "support" / "Reader.java"
# What it is made of; to compile it Java opens every jar that it is told of.
JARS = ("jackson", "kafka-clients", "lz4", "slf4j-api", "snappy", "zstd")
SMALL_JSON = '{"ponum":"4711","vendor":"Größe & Söhne 漢字 \U0001f600","total":1.50}'
SMALL_XML = "<PO><PONUM>4711</PONUM><VENDOR>Größe &amp; Söhne</VENDOR></PO>"
LARGE_JSON = json.dumps({"lines": [{"line": n, "text": f"ä{n}"} for n in range(200)]})
LARGE_XML = f"<PO>{''.join(f'<LINE>ä{n}</LINE>' for n in range(200))}</PO>"
# Each channel's name, its format, what it publishes, and whether that is compressed.
PUBLISHED = (
    ("MXPOInterface", "json", SMALL_JSON, False),
    ("MXPOInterface", "json", LARGE_JSON, True),
    ("MXPRInterface", "xml", SMALL_XML, False),
    ("MXPRInterface", "xml", LARGE_XML, True),
)


@pytest.fixture
def topic(kafka: Server) -> Iterator[str]:
    """A topic that two channels lead to, while a relay is at work."""
    name = f"java-{uuid.uuid4().hex[:10]}"
    provider = a_provider(bootstrap_servers=kafka.bootstrap)
    admin.create_topic(provider, name, partitions=1)
    order = a_channel("MXPOInterface", "erp", key_path="")
    a_target(a_channel("MXPRInterface", format="xml"), "erp", queue=order.targets.get().queue)
    Queue.objects.update(topic=name, provider=provider)
    over = threading.Event()
    relay = threading.Thread(target=lambda: run_relay(provider.pk, 0, stop=over.is_set))
    relay.start()
    yield name
    over.set()
    relay.join()


def read_by_java(kafka: Server, topic: str, count: int) -> list[dict[str, Any]]:
    """What the Java program tells of each record; it is compiled as it is started."""
    jars = ":".join(str(jar) for jar in KAFKA.glob("*.jar") if jar.name.startswith(JARS))
    options = ["-Xmx128m", *QUICK_START, "-cp", jars]
    arguments = [*options, READER, kafka.bootstrap, topic, count]
    said = subprocess.run(
        [str(java.find()), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert said.returncode == 0, said.stderr[-2_000:] or said.stdout
    return [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]


def test_a_java_client_reads_what_was_published(kafka: Server, topic: str) -> None:
    ids = [
        publish(channel, payload, key=f"key-{number}").ids["erp"]
        for number, (channel, _, payload, _) in enumerate(PUBLISHED)
    ]
    read = read_by_java(kafka, topic, len(PUBLISHED))
    assert [one["payload"] for one in read] == [payload for _, _, payload, _ in PUBLISHED]
    assert [one["key"] for one in read] == ["key-0", "key-1", "key-2", "key-3"]
    for told, message_id, (channel, form, _, is_packed) in zip(read, ids, PUBLISHED, strict=True):
        expected = {
            "interfacetype": "MAXIMO",
            "INTERFACE": channel,
            "SENDER": settings.SLUICE_DEPLOYMENT,
            "destination": "erp",
            "destjndiname": topic,
            "MEAMessageID": message_id,
            "mimetype": f"application/{form}",
        }
        assert told["envelope"] == expected | ({"compressed": "1"} if is_packed else {})
        assert told["headers"] == {
            "sluice-message-id": message_id,
            "sluice-interface": channel,
            "sluice-sender": settings.SLUICE_DEPLOYMENT,
            "sluice-destination": "erp",
        }
