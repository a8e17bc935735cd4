"""The speed of incoming messages without failures, against the loops one would write by hand."""

from bench.cases.throughput import Comparison
from bench.figure import Figure, at_least
from bench.ground import Ground


def inbound_batch(ground: Ground) -> Figure:
    """A batch handler: one upsert for 500 messages."""
    return Comparison(
        name="inbound_batch",
        interface="BenchBatch",
        loop="batch",
        against="hand-written loop, batches of 500, position in the same transaction",
        count=180_000,
        quick_count=15_000,
        target=at_least("ratio", 0.75),
    ).run(ground)


def inbound_per_message(ground: Ground) -> Figure:
    """A per-message handler with one upsert through a cursor."""
    return Comparison(
        name="inbound_per_message",
        interface="BenchAsset",
        loop="each",
        against="hand-written loop, the same statements, one commit per 500",
        count=25_000,
        quick_count=6_000,
        target=at_least("ratio", 0.8),
    ).run(ground)


def inbound_vs_single_commit(ground: Ground) -> Figure:
    """The same handler against one commit per message."""
    return Comparison(
        name="inbound_vs_single_commit",
        interface="BenchAsset",
        loop="single",
        against="hand-written loop, one commit per message",
        count=8_000,
        quick_count=3_000,
        target=at_least("ratio", 3.0),
    ).run(ground)


def inbound_isolated(ground: Ground) -> Figure:
    """The same handler with a transaction for each message."""
    return Comparison(
        name="inbound_isolated",
        interface="BenchIsolated",
        loop="single",
        against="hand-written loop, one commit per message",
        count=8_000,
        quick_count=3_000,
        target=at_least("ratio", 0.85),
    ).run(ground)
