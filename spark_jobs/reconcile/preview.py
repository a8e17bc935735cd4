"""The fates of the first records of a range, read by a plain client; no Spark is needed."""

from itertools import groupby, islice
from operator import attrgetter

import psycopg

from spark_jobs.contract import SAMPLES, Arguments, Preview, Sample
from spark_jobs.reconcile import knowing
from spark_jobs.reconcile.job import APPLICATION
from spark_jobs.reconcile.judging import judged
from spark_jobs.reconcile.parameters import ReconcileParameters
from spark_jobs.topics import planning
from spark_jobs.topics.cluster import Cluster, Read
from spark_jobs.topics.reading import kind_of, look


def preview(arguments: Arguments) -> Preview:
    """The first records, each with its fate, and how many offsets there are: at most as many.

    Nothing of a payload is shown. Raises JobError: what planning and the cluster refuse.
    """
    parameters = ReconcileParameters.of(arguments.parameters)
    cluster = Cluster(arguments.kafka)
    plan = planning.plan(cluster, parameters)
    records = list(islice(look(cluster, plan), SAMPLES))
    samples: list[Sample] = []
    with psycopg.connect(
        arguments.database, autocommit=True, application_name=APPLICATION
    ) as session:
        reading = knowing.begin(session, parameters.queue, plan.uuid)
        for partition, some in groupby(records, key=attrgetter("partition")):
            samples += _samples(session, reading, partition, list(some))
    return Preview(samples=samples, rows=plan.offsets, facts=plan.facts)


def _samples(
    session: "psycopg.Connection[tuple[object, ...]]",
    reading: knowing.Reading,
    partition: int,
    reads: list[Read],
) -> list[Sample]:
    known = knowing.known(session, reading, partition, (reads[0].offset, reads[-1].offset))
    records = [(record.offset, kind_of(record)) for record in reads]
    samples = []
    for (offset, _), fate in zip(records, judged(records, known), strict=True):
        failed = known.failures.get(offset)
        samples.append(
            Sample(
                place=f"partition {partition}, offset {offset:,}",
                ends=str(fate),
                text="",
                code="" if failed is None else failed.code,
                why=fate.sentence,
            )
        )
    return samples
