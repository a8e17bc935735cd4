"""The preview of a replay's choice, read by a plain client; nothing is written anywhere."""

from itertools import islice
from typing import Final

import psycopg

from spark_jobs.contract import SAMPLES, Arguments, Preview, Sample
from spark_jobs.replay.choosing import Chooser
from spark_jobs.replay.job import check
from spark_jobs.replay.parameters import ReplayParameters
from spark_jobs.topics import planning
from spark_jobs.topics.cluster import Cluster
from spark_jobs.topics.reading import look

# Of a range so many records are looked at for messages that fit.
MOST: Final = 2_000


def preview(arguments: Arguments) -> Preview:
    """The first chosen messages by their ids, and about how many there would be.

    Nothing of a payload is shown. Raises JobError: what planning and the cluster refuse.
    """
    parameters = ReplayParameters.of(arguments.parameters)
    cluster = Cluster(arguments.kafka)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        check(database, cluster, parameters)
    plan = planning.plan(cluster, parameters)
    samples: list[Sample] = []
    looked = chosen = 0
    chooser = Chooser(parameters)
    for record in islice(look(cluster, plan), MOST):
        looked += 1
        message = chooser.seen(record)
        chosen += message is not None
        if message is not None and len(samples) < SAMPLES:
            place = f"partition {record.partition}, offset {record.offset:,}"
            samples.append(Sample(place=place, ends="chosen", text=message.message_id))
    return Preview(
        samples=samples,
        rows=round(plan.offsets * chosen / looked) if looked else 0,
        facts={
            "topic": plan.topic,
            "ranges": plan.ranges,
            "looked_at": looked,
            "chosen": chosen,
        },
    )
