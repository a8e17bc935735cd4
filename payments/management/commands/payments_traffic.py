"""Plays the store: sends payment requests until it is stopped."""

import threading
import time
from collections import Counter
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import IntegrationError
from integration.models import Queue
from payments import names
from payments.store import AtBroker, AtKafka, at_broker
from payments.traffic import stream
from sample.stopping import until_told

RATE_PER_SECOND: Final = 1.0
# Of so many requests one comes from the older applications, by JMS.
JMS_SHARE: Final = 0.25


class Command(BaseCommand):
    """`manage.py payments_traffic`."""

    help = (
        "Send payment requests as the store would: some fail, some come twice. Where the example "
        "has a queue at a JMS broker, a quarter of them go there."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rate", type=float, default=RATE_PER_SECOND, help="requests a second (default 1)"
        )
        parser.add_argument("--seconds", type=float, help="stop after so long (default: never)")

    def handle(self, *_: object, **options: Any) -> None:
        if options["rate"] <= 0:
            raise CommandError("--rate must be above 0.")
        try:
            kafka = AtKafka()
        except Queue.DoesNotExist as e:
            sentence = "The example is not set up; run `manage.py seed_payments` first."
            raise CommandError(sentence) from e
        except IntegrationError as e:
            raise CommandError(str(e)) from e
        sent: Counter[str] = Counter()
        with until_told() as over, ExitStack() as connections:
            broker = self._broker(connections)
            self._play((kafka, broker), over, sent, options)
        kafka.close()
        self.stdout.write(f"Sent {sent.total()} requests; {kafka.unconfirmed} unconfirmed.")
        for why, number in sorted(sent.items()):
            self.stdout.write(f"  {number:>6}  {why or 'sound'}")

    def _broker(self, connections: ExitStack) -> AtBroker | None:
        """The broker, where the example has a queue there and it can be reached."""
        if not Queue.objects.filter(name=names.JMS_REQUESTS).exists():
            return None
        try:
            return connections.enter_context(at_broker())
        except ConnectionError as problem:
            self.stdout.write(f"All requests go to Kafka: {problem}")
            return None

    def _play(
        self,
        doors: tuple[AtKafka, AtBroker | None],
        over: threading.Event,
        sent: Counter[str],
        options: dict[str, Any],
    ) -> None:
        """Send until told to end, or the time is over."""
        random = Random()  # noqa: S311 - made-up requests, no secrets
        kafka, broker = doors
        began = time.monotonic()
        for each in stream(random):
            if over.wait(random.expovariate(options["rate"])):
                return
            if options["seconds"] is not None and time.monotonic() - began >= options["seconds"]:
                return
            is_by_jms = broker is not None and random.random() < JMS_SHARE
            if broker is not None and is_by_jms and not broker.send(each):
                self.stdout.write("The JMS broker is away; all requests go to Kafka from now on.")
                broker = None
                is_by_jms = False
            if not is_by_jms:
                kafka.send(each)
            sent[each.why] += 1
