"""Makes many idle queues at once: one topic with one partition each."""

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.kafka.looks import TopicLook, look
from integration.models import EnterpriseService, Provider, Queue, QueuePartition

AT_ONCE = 100
SEEN_SECONDS = 180.0


class Command(BaseCommand):
    """`bench_idle NAME COUNT`: queues NAME-0000 and so on, continuous, each taken by BenchPing."""

    help = "Make many idle queues."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("count", type=int)

    def handle(self, *_: Any, name: str, count: int, **__: Any) -> None:
        provider, _made = Provider.objects.get_or_create(
            name="bench", defaults={"bootstrap_servers": settings.SLUICE_KAFKA_BOOTSTRAP}
        )
        service, _made = EnterpriseService.objects.get_or_create(interface="BenchPing")
        names = [f"{name}-{number:04d}" for number in range(count)]
        admin = AdminClient({"bootstrap.servers": settings.SLUICE_KAFKA_BOOTSTRAP})
        for first in range(0, count, AT_ONCE):
            topics = [NewTopic(topic, num_partitions=1) for topic in names[first : first + AT_ONCE]]
            for future in admin.create_topics(topics).values():
                future.result(60)
        for topic, topic_look in self._seen(provider, names):
            queue = Queue.objects.create(
                name=topic,
                provider=provider,
                topic=topic,
                kind=Queue.Kind.CONTINUOUS,
                default_service=service,
                start_from=Queue.StartFrom.BEGINNING,
            )
            QueuePartition.objects.create(
                queue=queue, partition=0, topic_uuid=topic_look.facts.topic_uuid, next_offset=0
            )

    @staticmethod
    def _seen(provider: Provider, names: list[str]) -> Iterator[tuple[str, TopicLook]]:
        """Each topic, once the brokers tell of it: that takes a moment after its creation."""
        unseen, until = names, time.monotonic() + SEEN_SECONDS
        while unseen:
            looks = look(provider, unseen)
            yield from ((name, seen) for name, seen in looks.items() if seen is not None)
            unseen = [name for name in unseen if looks.get(name) is None]
            if unseen and time.monotonic() > until:
                raise CommandError(f"The brokers do not tell of {len(unseen)} topics.")
