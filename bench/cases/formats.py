"""The same messages in Avro, by a schema registry, and as JSON."""

import io
import json
import struct
import urllib.request
from typing import Any, Final

import fastavro

from bench import cpu, facts, workload
from bench.cases.throughput import KEYS
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue
from bench.rig import Rig
from devstack import ports
from devstack.registry import Registry

INTERFACE: Final = "BenchBatch"
_TEXTS: Final = ("assetnum", "siteid", "description", "status", "changedate", "remark")
SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Asset",
    "namespace": "bench",
    "fields": [
        *({"name": name, "type": "string"} for name in _TEXTS),
        {"name": "seq", "type": "long"},
        {"name": "purchaseprice", "type": "double"},
        {
            "name": "meter",
            "type": {
                "type": "record",
                "name": "Meter",
                "fields": [
                    {"name": "name", "type": "string"},
                    {"name": "reading", "type": ["null", "double"]},
                ],
            },
        },
    ],
}


def avro(ground: Ground) -> Figure:
    """`inbound_batch`'s messages through one worker: decoded from Avro, and parsed from JSON."""
    count = 15_000 if ground.quick else 120_000
    with ground.rig("avro") as rig:
        registry = Registry(rig.folder, ports.choose(), durable=False)
        try:
            registry.start()
            encoded, plain = _queues(rig, registry.url, count)
            worker = rig.start_worker()
            used: dict[str, list[cpu.Used]] = {"avro": [], "json": []}

            def timed(queue: BenchQueue, kind: str) -> float:
                meter = cpu.Meter(rig, worker)
                queue.run()
                used[kind].append(meter.used())
                rate = facts.rate(rig, facts.OURS)
                facts.every_one_once(rig, facts.OURS, count)
                queue.switch_off()
                return rate

            paired = run_pairs(
                lambda: timed(encoded, "avro"), lambda: timed(plain, "json"), quick=ground.quick
            )
        finally:
            registry.kill()
    return Figure(
        name="avro",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="the same messages as JSON",
        target=at_least("ratio", 0.7),
        facts={**paired.facts, **cpu.as_facts(used["avro"], used["json"], count)},
    )


def _queues(rig: Rig, registry: str, count: int) -> tuple[BenchQueue, BenchQueue]:
    """Two queues with shipped settings, full of the same assets, switched off."""
    schema_id = _registered(registry, "avro-value")
    parsed = fastavro.parse_schema(SCHEMA)
    topics = {
        "avro": rig.topic(
            "avro", (_encoded(asset, parsed, schema_id) for asset in workload.assets(count, KEYS))
        ),
        "avro_json": rig.topic("avro_json", workload.assets(count, KEYS)),
    }
    ids = rig.configure(
        *(
            {
                "name": name,
                "topic": topic,
                "kind": "continuous",
                "interface": INTERFACE,
                "enabled": False,
            }
            for name, topic in topics.items()
        )
    )
    rig.write("UPDATE integration_provider SET registry_url = %s", [registry])
    encoded, plain = (BenchQueue(rig, ids[name], topics[name], count) for name in topics)
    return encoded, plain


def _encoded(asset: bytes, parsed: Any, schema_id: int) -> bytes:
    body = io.BytesIO(struct.pack(">bI", 0, schema_id))
    body.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(body, parsed, json.loads(asset))
    return body.getvalue()


def _registered(registry: str, subject: str) -> int:
    """Register the schema; returns its id."""
    body = json.dumps({"schema": json.dumps(SCHEMA)}).encode()
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{registry}/subjects/{subject}/versions",
        data=body,
        headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        return int(json.load(answer)["id"])
