"""A rescue over the in-memory fakes: everything it needs, and what happens around it."""

from collections.abc import Callable, Mapping
from itertools import count

from integration.delivery.rescuing import RescueContext, RescueReport, RescueStep, rescue
from tests.support.fake_world import Died, FakeWorld, QuickSource
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.rescues import MemoryRescues


def rescue_in(
    world: FakeWorld,
    until: int | Mapping[int, int],
    act: Callable[[RescueStep], None] = lambda _: None,
    piece_records: int = 10_000,
) -> RescueReport:
    """Copy what waits below an offset of each partition. A Died passes through."""
    manager = MemoryPartitionManager(world.database, rescues=True)
    places = world.database.places
    by_partition = dict.fromkeys(places, until) if isinstance(until, int) else until
    held = manager.take_only([places[partition].id for partition in by_partition])
    clock, is_clean = count(), True
    context = RescueContext(
        source=QuickSource(world.topic, world.waits),
        store=MemoryRescues(world.database),
        reasons=dict.fromkeys(places, "PAUSED"),
        step=act,
        monotonic=lambda: float(next(clock)),
        piece_records=piece_records,
    )
    try:
        act(RescueStep.TAKEN)
        return rescue(context, held, by_partition)
    except Died:
        is_clean = False
        raise
    finally:
        manager.close(clean=is_clean)
