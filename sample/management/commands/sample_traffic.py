"""Plays the partner: sends believable messages to the sample's queues until it is stopped."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from integration.errors import IntegrationError
from integration.kafka.client import connection, new_producer
from integration.models import Queue
from sample import names
from sample.traffic import Traffic
from sample.wire import Sent

RATE_PER_SECOND: Final = 2.0
# Told to end, it does not wait for a broker that is away.
FLUSH_SECONDS: Final = 3.0
FULL_QUEUE_SECONDS: Final = 0.5


class Command(BaseCommand):
    """`manage.py sample_traffic`."""

    help = (
        "Send assets, orders, meter readings and locations as the ERP would, some of which fail. "
        "After twenty seconds one blocks the sequential queue."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rate", type=float, default=RATE_PER_SECOND, help="messages a second (default 2)"
        )
        parser.add_argument("--seconds", type=float, help="stop after so long (default: never)")
        parser.add_argument("--seed", type=int, help="the same seed sends the same documents")

    def handle(self, *_: object, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        if options["rate"] <= 0:
            raise CommandError("--rate must be above 0.")
        partner = Partner()
        with _until_told() as over:
            self._run(partner, over, options)
            lost = partner.close()
        self.stdout.write(f"Sent {partner.sent.total() - lost} messages; {lost} unconfirmed.")
        for why, number in sorted(partner.sent.items()):
            self.stdout.write(f"  {number:>6}  {why or 'sound'}")

    def _run(self, partner: "Partner", over: threading.Event, options: dict[str, Any]) -> None:
        random = Random(options["seed"])  # noqa: S311 - sample documents, no secrets
        traffic = Traffic(random)
        began = time.monotonic()
        for sent in traffic.opening():
            partner.send(sent)
        while not over.wait(random.expovariate(options["rate"])):
            elapsed_seconds = time.monotonic() - began
            if options["seconds"] is not None and elapsed_seconds >= options["seconds"]:
                return
            partner.send(traffic.next(timezone.now(), elapsed_seconds))


@contextmanager
def _until_told() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, so that what is under way is still sent."""
    over = threading.Event()
    stops = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(stop, lambda *_: over.set()) for stop in stops]
    try:
        yield over
    finally:
        for stop, handler in zip(stops, before, strict=True):
            signal.signal(stop, handler)


class Partner:
    """The ERP's own Kafka producer; `sent` counts what was sent by what is wrong with it."""

    def __init__(self) -> None:
        queues = Queue.objects.select_related("provider").filter(name__in=names.TOPICS)
        self._topics = {queue.name: queue.topic for queue in queues}
        if names.TOPICS.keys() - self._topics.keys():
            raise CommandError("The sample is not set up; run `manage.py devstack_seed` first.")
        try:
            self._producer = new_producer(connection(queues[0].provider), None, {})
        except IntegrationError as e:
            raise CommandError(str(e)) from e
        self.sent: Counter[str] = Counter()
        self._refused = 0

    def send(self, sent: Sent) -> None:
        topic = self._topics[sent.queue]
        while True:
            try:
                self._producer.produce(
                    topic,
                    sent.value,
                    sent.key,
                    headers=list(sent.headers),
                    on_delivery=self._report,
                )
                break
            except BufferError:
                # The broker is away and the queue is full: wait as a partner would.
                self._producer.poll(FULL_QUEUE_SECONDS)
        self._producer.poll(0)
        self.sent[sent.why] += 1

    def close(self) -> int:
        """Wait for what is under way; the number of messages that were not confirmed."""
        return self._producer.flush(FLUSH_SECONDS) + self._refused

    def _report(self, error: object, _message: object) -> None:
        if error is not None:
            self._refused += 1
