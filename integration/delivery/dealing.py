"""A batch in shares that can be worked side by side: messages of one key stay in one share."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from integration.delivery.context import RunContext
from integration.delivery.key_order import read_order_keys
from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.unit import Unit
from integration.policy.states import PartitionState


def shares_of(context: RunContext, owned: Owned, units: Sequence[Unit]) -> Sequence[Sequence[Unit]]:
    """Return the shares of a batch, each in the order of the log; one where it is not shared.

    What does not run, or may kill its process, is worked by one: as if there were no others.
    """
    threads = min(context.queue.threads, len(units))
    is_calm = owned.state is PartitionState.RUNNING and owned.isolate_until is None
    if threads == 1 or context.threads is None or not is_calm:
        return [units]
    return deal(units, threads, _labels(context, units))


def taken_up(
    context: RunContext, owned: Owned, units: Sequence[Unit], *, is_shared: bool
) -> OpenBatch | None:
    """Return the batch that these records belong to, if it is not one that ends in order.

    What an earlier run has left open of one goes on under its number, whoever works on it now.
    """
    if not units[0].moves or (owned.rest is None and not is_shared):
        return None
    offsets = [unit.at for unit in units]
    if owned.rest is None:
        number, first = context.repository.draw_arrival(), owned.next_offset
        owned.open_batch = OpenBatch(arrival=number, first=first, until=offsets[-1] + 1)
    if owned.open_batch is not None:
        owned.open_batch.offsets = offsets
    return owned.open_batch


def deal(
    units: Sequence[Unit], threads: int, labels: Sequence[Hashable | None]
) -> list[list[Unit]]:
    """Deal them out so evenly as labels allow: one label is in one share, None in any."""
    counts = Counter(label for label in labels if label is not None)
    load, thread_of = [0] * threads, dict[Hashable, int]()
    for label, count in counts.most_common():
        thread_of[label] = load.index(min(load))
        load[thread_of[label]] += count
    shares: list[list[Unit]] = [[] for _ in range(threads)]
    for unit, label in zip(units, labels, strict=True):
        thread = load.index(min(load)) if label is None else thread_of[label]
        load[thread] += label is None
        shares[thread].append(unit)
    return [share for share in shares if share]


def _labels(context: RunContext, units: Sequence[Unit]) -> Sequence[Hashable | None]:
    """The keys; where repeated ids are dropped, what shares an id is one with it, too."""
    read_order_keys(units, context.queue.order_texts)
    keys = [unit.order_key for unit in units]
    if not context.queue.dedupe:
        return keys
    return _joined((key, unit.message_id or None) for key, unit in zip(keys, units, strict=True))


def _joined(pairs: Iterable[tuple[bytes | None, str | None]]) -> list[Hashable | None]:
    """One label for each: the same wherever two have the key or the id in common, or a third."""
    known: dict[Hashable, Hashable] = {}

    def root(of: Hashable) -> Hashable:
        while (above := known.setdefault(of, of)) != of:
            known[of] = of = known.setdefault(above, above)
        return of

    firsts: list[Hashable | None] = []
    for pair in pairs:
        named = [one for one in pair if one is not None]
        for one in named[1:]:
            known[root(one)] = root(named[0])
        firsts.append(named[0] if named else None)
    return [None if first is None else root(first) for first in firsts]
