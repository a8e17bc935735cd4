"""Sends records to a topic by a pooled connection, or by the bare client; prints the rate."""

import json
import time
from typing import Any

from confluent_kafka import Producer
from django.core.management.base import BaseCommand, CommandParser

from bench.workload import assets
from integration import connections
from integration.kafka.client import connection, producer_properties
from integration.models import ConnectionFactory, Provider


class Command(BaseCommand):
    """Both sides have the same settings, send the same records, and end when Kafka has them all."""

    help = "Send records to a topic; print how many a second."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("side", choices=["pooled", "bare"])
        parser.add_argument("topic")
        parser.add_argument("count", type=int)
        parser.add_argument("keys", type=int)

    def handle(self, *_: Any, **options: Any) -> None:
        provider = Provider.objects.get(name="bench")
        ConnectionFactory.objects.get_or_create(name="bench", defaults={"provider": provider})
        payloads = list(assets(options["count"], options["keys"]))
        send = _pooled if options["side"] == "pooled" else _bare(provider)
        send(options["topic"], payloads[:1])
        began = time.perf_counter()
        send(options["topic"], payloads)
        self.stdout.write(json.dumps(len(payloads) / (time.perf_counter() - began)))


def _pooled(topic: str, payloads: list[bytes]) -> None:
    with connections.lookup("bench").session() as session:
        for number, payload in enumerate(payloads):
            session.send(topic, payload, key=b"%d" % number)


def _bare(provider: Provider) -> Any:
    producer = Producer(producer_properties(connection(provider)))
    failures: list[object] = []

    def reported(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    def send(topic: str, payloads: list[bytes]) -> None:
        for number, payload in enumerate(payloads):
            while True:
                try:
                    producer.produce(topic, payload, b"%d" % number, on_delivery=reported)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(60) or failures:
            raise RuntimeError(f"not all were written: {failures[:1]}")

    return send
