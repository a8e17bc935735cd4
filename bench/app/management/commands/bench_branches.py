"""Leaves two-phase commits in doubt, half of them decided in Kafka, and settles them."""

import json
import time
import uuid
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from integration.delivery.two_phase import opened
from integration.models import QueuePartition
from integration.policy.branches import Branch
from integration.runs.branches import publisher_of, settle_all
from integration.store.sessions import raw_connection

ADVANCE = "UPDATE integration_queuepartition SET next_offset = 10 WHERE id = %s"


class Command(BaseCommand):
    """One branch for each partition of the queue; every second one is decided."""

    help = "Leave a commit in doubt at each partition of a queue, and settle all of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queue", type=int)

    def handle(self, *, queue: int, **_: Any) -> None:
        partitions = list(QueuePartition.objects.filter(queue=queue).order_by("partition"))
        with raw_connection("bench") as session:
            for row in partitions:
                place = (settings.SLUICE_DEPLOYMENT, queue, row.partition)
                branch = Branch(*place, 10, row.epoch, row.pk, uuid.uuid4())
                session.execute("BEGIN")
                session.execute(ADVANCE, [row.pk])
                session.execute(f"PREPARE TRANSACTION '{branch}'")
                publisher = publisher_of(queue, row.partition)
                opened(publisher, branch)
                if row.partition % 2 == 0:
                    publisher.write_watermark(str(branch))
                publisher.close()
        began = time.monotonic()
        left = settle_all()
        seconds = time.monotonic() - began
        moved = QueuePartition.objects.filter(queue=queue, next_offset=10)
        even = sorted(moved.values_list("partition", flat=True))
        is_right = even == list(range(0, len(partitions), 2))
        self.stdout.write(json.dumps({"seconds": seconds, "left": left, "is_right": is_right}))
