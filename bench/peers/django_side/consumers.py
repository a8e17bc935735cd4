"""One topic and its consumer, as the first pages of django-kafka's documentation set them up."""

import json
import os
from typing import Any

from django.db import connection, transaction
from django_kafka import kafka
from django_kafka.consumer import Consumer, Topics
from django_kafka.topic import TopicConsumer

from bench import statements
from bench.workload import row_of


class Assets(TopicConsumer):  # type: ignore[misc] # its package is in another environment
    """Assets into the table."""

    name = os.environ["BENCH_TOPIC"]

    def consume(self, msg: Any) -> None:
        """One transaction for one message."""
        body = json.loads(msg.value())
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statements.UPSERT_ONE, (*row_of(body), 0, msg.offset()))
            cursor.execute(statements.WRITE_EFFECT, ("peer", body["seq"], None))


@kafka.consumers()
class AssetsConsumer(Consumer):  # type: ignore[misc] # as above
    """The offset is stored once `consume` has returned, and committed every five seconds."""

    topics = Topics(Assets())
    config = {
        "group.id": os.environ["BENCH_GROUP"],
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
    }
