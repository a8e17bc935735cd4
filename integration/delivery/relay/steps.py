"""The stations of the relay, told to an observer. So far only tests observe, to crash it there."""

from collections.abc import Callable
from enum import StrEnum


class RelayStep(StrEnum):
    """The point a relay has reached. Each is reported between two effects, never inside one."""

    TAKEN = "taken"  # lock held, epoch raised
    FENCED = "fenced"  # Kafka lets no earlier owner write any more
    SETTLED = "settled"  # the batch an earlier owner left is accounted for
    GAVE_UP = "gave_up"  # topics that are no longer in its share are free for other shards
    TOOK = "took"  # it holds its share
    BEGUN = "begun"  # a transaction is open in Kafka
    PRODUCED = "produced"  # its records are in the client's queue
    STAMPED = "stamped"  # the batch is noted, committed in the database
    FLUSHED = "flushed"  # the broker has confirmed each of them
    WATERMARKED = "watermarked"  # the batch's id is in the transaction
    COMMITTED = "committed"  # the instant after Kafka's commit
    MARKED = "marked"  # the rows are PUBLISHED
    UNSTAMPED = "unstamped"  # a refused batch is free again, to be tried in smaller parts
    BURIED = "buried"  # a row that Kafka refuses even alone is DEAD


RelayObserver = Callable[[RelayStep], None]


def unobserved(_step: RelayStep) -> None:
    """Nothing listens."""
