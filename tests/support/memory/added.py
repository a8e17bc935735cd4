"""The partitions that a topic got since, in the in-memory tables."""

from collections.abc import Mapping
from datetime import UTC, datetime

from integration.delivery.owned import Owned
from integration.values import ProducersKnow
from tests.support.memory.tables import MemoryDatabase


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


def has_begun(database: MemoryDatabase, owned: Owned) -> bool:
    """Whether nothing of its keys can wait in the others; noted then."""
    place = database.place(owned)
    after = (place.begins_after or {}).items()
    is_before = any(database.places[p].next_offset < at for p, at in after)
    waits = database.queue.keeps_keys_in_order and (is_before or place.producers_know_at)
    if not database.is_owned(owned) or waits:
        return False
    place.begins_after = place.producers_know_at = None
    return True
