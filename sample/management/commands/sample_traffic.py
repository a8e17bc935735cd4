"""Plays the partner: sends believable messages to the sample's queues until it is stopped."""

import threading
import time
from collections import Counter
from random import Random
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from integration.errors import IntegrationError
from integration.kafka.client import connection, new_producer
from integration.models import MessageTrack, Queue
from sample import documents, names
from sample.outbound import found_again
from sample.removal import is_there, was_removed
from sample.stopping import until_told
from sample.terminal import Terminal
from sample.traffic import Traffic
from sample.wire import Sent

RATE_PER_SECOND: Final = 2.0
# Told to end, it does not wait for a broker that is away.
FLUSH_SECONDS: Final = 3.0
FULL_QUEUE_SECONDS: Final = 0.5
# Shorter than the removal waits before it deletes the topics.
LOOK_EVERY_SECONDS: Final = 1.0
# Of so many messages to Kafka one comes over HTTP besides.
POSTED_SHARE: Final = 0.2
NOT_SET_UP: Final = "The sample is not set up; run `manage.py seed_sample` first."


class Command(BaseCommand):
    """`manage.py sample_traffic`."""

    help = (
        "Send assets, orders, readings, locations and stock levels as the partners would, some of "
        "which fail. After some seconds one blocks the sequential queue. When the sample is "
        "removed it sends nothing until there is one again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rate", type=float, default=RATE_PER_SECOND, help="messages a second (default 2)"
        )
        parser.add_argument("--seconds", type=float, help="stop after so long (default: never)")
        parser.add_argument(
            "--http-api", default="", help="also post over HTTP, to the console here"
        )
        parser.add_argument("--seed", type=int, help="the same seed sends the same documents")

    def handle(self, *_: object, **options: Any) -> None:
        if options["rate"] <= 0:
            raise CommandError("--rate must be above 0.")
        with until_told() as over:
            while not over.is_set():
                if is_there():
                    self._play(over, options)
                elif not was_removed():
                    raise CommandError(NOT_SET_UP)
                if options["seconds"] is not None:
                    return
                over.wait(LOOK_EVERY_SECONDS)

    def _play(self, over: threading.Event, options: dict[str, Any]) -> None:
        """Play until told to end, or the sample is gone."""
        partner = Partner()
        for name in found_again():
            self.stdout.write(f"Made {name}.")
        terminal = Terminal(options["http_api"]) if options["http_api"] else None
        self._run(partner, over, {**options, "terminal": terminal})
        lost = partner.close()
        self.stdout.write(f"Sent {partner.sent.total() - lost} messages; {lost} unconfirmed.")
        for why, number in sorted(partner.sent.items()):
            self.stdout.write(f"  {number:>6}  {why or 'sound'}")
        if terminal is not None:
            self.stdout.write(f"Posted {terminal.taken} over HTTP; {terminal.refused} not taken.")
        if not over.is_set() and not is_there():
            self.stdout.write("The sample was removed; nothing is sent until there is one again.")

    def _run(self, partner: "Partner", over: threading.Event, options: dict[str, Any]) -> None:
        random = Random(options["seed"])  # noqa: S311 - sample documents, no secrets
        traffic = Traffic(random)
        began = looked_at = time.monotonic()
        is_first, terminal = is_first_time(), options.get("terminal")
        for sent in traffic.opening(timezone.now()) if is_first else ():
            partner.send(sent)
        while not over.wait(random.expovariate(options["rate"])):
            now = time.monotonic()
            if options["seconds"] is not None and now - began >= options["seconds"]:
                return
            if now - looked_at >= LOOK_EVERY_SECONDS:
                looked_at = now
                if not is_there():
                    return
            for sent in traffic.due(timezone.now(), now - began) if is_first else ():
                partner.send(sent)
            partner.send(traffic.next(timezone.now()))
            if terminal is not None and random.random() < POSTED_SHARE:
                terminal.post(documents.level(random))


def is_first_time() -> bool:
    """Return whether nothing was read from partners yet: what people repaired stays repaired."""
    return not MessageTrack.objects.filter(queue__name__in=names.TOPICS).exists()


class Partner:
    """The ERP's own Kafka producer; `sent` counts what was sent by what is wrong with it."""

    def __init__(self) -> None:
        queues = Queue.objects.select_related("provider").filter(name__in=names.TOPICS)
        self._topics = {queue.name: queue.topic for queue in queues}
        if names.TOPICS.keys() - self._topics.keys():
            raise CommandError(NOT_SET_UP)
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
