"""The partitions that a topic got since, in the in-memory tables."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from integration.delivery.added import Addition
from integration.delivery.owned import Owned
from integration.policy.positions import PRODUCERS_KNOW_SECONDS, do_keys_stay
from integration.policy.states import DeliveryState, ErrorState
from integration.values import ProducersKnow, TopicFacts
from tests.support.memory.rows import PlaceRow
from tests.support.memory.tables import MemoryDatabase


def add_partitions(database: MemoryDatabase, facts: TopicFacts) -> Addition:
    """All that are missing or none; a sequential queue and another topic get none."""
    queue, places = database.queue, database.places
    strange = any(place.topic_uuid != facts.topic_uuid for place in places.values())
    if strange or queue.needs_one_partition or database.removed:
        return Addition.DONE
    new, by_key = facts.low.keys() - places.keys(), queue.keeps_keys_in_order
    if by_key and new and not do_keys_stay(len(places), facts.partitions):
        return Addition.KEYS_MOVED
    if not _fences_lowest(database, new):
        return Addition.LATER
    epoch, know_at = max(p.epoch for p in places.values()), None
    if by_key:
        know_at = database.clock.seconds + PRODUCERS_KNOW_SECONDS
    after = {p: facts.high[p] for p in places}
    for partition in sorted(new):
        places[partition] = PlaceRow(
            id=1000 + partition,
            partition=partition,
            topic_uuid=facts.topic_uuid,
            next_offset=0,
            epoch=epoch,
            begins_after=after if by_key else None,
            producers_know_at=know_at,
        )
    return Addition.DONE


def _fences_lowest(database: MemoryDatabase, new: Collection[int]) -> bool:
    """Whoever has the lowest works for what is left of them: false while that is under way."""
    lowest = database.places[min(database.places)]
    calls = [call for call in database.calls.rows.values() if call.state is DeliveryState.SENDING]
    left = {row.record.partition for row in database.open_rows()}
    left |= {call.place[1] for call in calls}
    if left.isdisjoint(new):
        return True
    tries = [row for row in database.open_rows() if row.state is ErrorState.PROCESSING]
    begun = {(row.record.partition, row.epoch) for row in tries}
    begun |= {(call.place[1], call.epoch) for call in calls}
    here = {(partition, lowest.epoch) for partition in (lowest.partition, *new)}
    if lowest.owner is not None and begun & here:
        return False
    lowest.epoch += 1
    return True


def producers_know(database: MemoryDatabase, owned: Owned) -> ProducersKnow | None:
    at = database.place(owned).producers_know_at
    if at is None or not database.queue.keeps_keys_in_order:
        return None
    return ProducersKnow(datetime.fromtimestamp(at, UTC), at <= database.clock.seconds)


def note_ends(database: MemoryDatabase, owned: Owned, ends: Mapping[int, int]) -> bool:
    place, know = database.place(owned), producers_know(database, owned)
    if not database.is_owned(owned) or know is None or not know.is_now:
        return False
    after = place.begins_after or {}
    place.begins_after = {p: ends.get(p, at) for p, at in after.items()}
    place.producers_know_at = None
    return True


def has_begun(database: MemoryDatabase, owned: Owned, ends: Mapping[int, int]) -> bool:
    """Whether nothing of its keys can wait in the others; noted then."""
    place = database.place(owned)
    after = (place.begins_after or {}).items()
    reached = {p: place.next_offset for p, place in database.places.items()}
    is_before = any(reached[p] < at and reached[p] != ends.get(p) for p, at in after)
    waits = database.queue.keeps_keys_in_order and (is_before or place.producers_know_at)
    if not database.is_owned(owned) or waits:
        return False
    place.begins_after = place.producers_know_at = None
    return True
