"""The partitions of one queue, divided among the runs that work on it at the same time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one queue, seen by one of them: how many there are, and its place among them.

    `rank` counts from 0 and is the same for all who look: each run knows its own share without
    asking the others. `partitions` are those of the queue, whoever holds them.
    """

    partitions: int
    count: int
    rank: int


def most_runs(partitions: int, workers: int | None) -> int:
    """Return how many runs a queue may have; `workers` None means one for each partition."""
    return min(partitions, partitions if workers is None else workers)


def share(runs: Runs, workers: int | None) -> int:
    """Return how many partitions this run holds once all have what they should.

    Shares differ by one at most and add up to all partitions; a run too many has none.
    """
    sharing = min(runs.count, most_runs(runs.partitions, workers))
    if runs.rank >= sharing:
        return 0
    least, more = divmod(runs.partitions, sharing)
    return least + (runs.rank < more)


def first_share(runs: Runs, workers: int | None) -> int:
    """Return how many free partitions a run takes when it begins.

    Its rank does not count yet: a run that was stopped may stand before it, until its sessions are
    ended by whoever takes its partitions.
    """
    sharing = max(1, min(runs.count, most_runs(runs.partitions, workers)))
    return -(-runs.partitions // sharing)


def lacks_runs(runs: Runs, workers: int | None) -> bool:
    """Return whether one more run would take work off the others."""
    return runs.count < most_runs(runs.partitions, workers)
