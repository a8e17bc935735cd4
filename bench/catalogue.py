"""Every benchmark by its name, in the order in which they run."""

from collections.abc import Callable, Mapping
from typing import Final

from bench.cases import (
    bridging,
    bulk_imports,
    bulk_topics,
    concurrency,
    console_lists,
    failing,
    formats,
    history,
    http,
    idling,
    inbound,
    latency_cases,
    memory,
    operations,
    peers,
    pooling,
    posting,
    recovery,
    relaying,
    rescuing,
    services,
    sharing,
    spark_start,
    stopwatch,
    stored_imports,
    tracing,
    tracking,
    two_phase,
)
from bench.figure import Figure
from bench.ground import Ground

BENCHMARKS: Final[Mapping[str, Callable[[Ground], Figure]]] = {
    function.__name__: function
    for function in (
        inbound.inbound_batch,
        tracking.tracking_cost,
        tracing.otel_off,
        tracing.trace_kept,
        tracing.otel_on,
        formats.avro,
        inbound.inbound_per_message,
        inbound.inbound_vs_single_commit,
        inbound.inbound_isolated,
        history.inbound_two_statements,
        failing.inbound_failing_5pct,
        failing.failing_1pct,
        failing.inbound_by_key_1pct,
        latency_cases.tick_to_first_record,
        latency_cases.attached_pickup,
        recovery.restart_after_kill,
        services.restart_all,
        services.footprint,
        latency_cases.many_queues,
        idling.idle_1000,
        concurrency.concurrency_8,
        sharing.spread_4,
        sharing.handover,
        relaying.relay,
        rescuing.rescue,
        memory.consumer_memory,
        console_lists.console_lists,
        posting.esqueue_intake,
        operations.bulk_release,
        operations.bulk_release_first,
        http.http_sequential,
        http.http_concurrency,
        pooling.pool,
        two_phase.two_phase,
        two_phase.branches_100,
        bridging.bridge_egress,
        bridging.bridge_ingress,
        spark_start.spark_warm_start,
        stopwatch.repair_stopwatch,
        bulk_imports.spark_import,
        stored_imports.spark_import_s3,
        bulk_imports.spark_to_queue,
        bulk_imports.spark_scale,
        bulk_topics.spark_reconcile,
    )
}

# Others at the same work, whose packages are fetched when they are asked for: not part of all.
PEERS: Final[Mapping[str, Callable[[Ground], Figure]]] = {
    function.__name__: function
    for function in (
        peers.peers_faststream,
        peers.peers_faststream_batch,
        peers.peers_faststream_default,
        peers.peers_django_kafka,
    )
}
