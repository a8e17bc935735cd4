"""The order that must hold in the delivery machine: of a sequential queue, and within a key."""

from hypothesis.stateful import RuleBasedStateMachine, invariant

from integration.policy.states import ErrorState
from tests.support.fake_world import FakeWorld, Written


class KeepsOrder(RuleBasedStateMachine):
    """What was applied, in which order; `late` and `deleted` are what may come after others."""

    world: FakeWorld
    keys: dict[tuple[int, int], bytes | None]
    late: set[int]
    deleted: set[tuple[int, int]]

    def _effects(self) -> list[Written]:
        found = self.world.database.effects
        assert all(isinstance(effect, Written) for effect in found), "an orphan was committed"
        return list(found)

    @invariant()
    def a_sequential_queue_applies_in_order(self) -> None:
        if not self.world.database.queue.sequential:
            return
        for row in self.world.database.errors.values():
            passed = row.record.offset < self.world.place().next_offset
            if row.expired or row.parked or (passed and row.state is not ErrorState.RESOLVED):
                self.late.add(row.record.offset)
        in_order = [offset for offset in self.world.effects() if offset not in self.late]
        assert in_order == sorted(in_order)

    @invariant()
    def messages_of_a_key_are_applied_in_order(self) -> None:
        """But for those that others may pass: deleted and restored later, or expired heads."""
        database = self.world.database
        if not database.queue.keeps_keys_in_order and not database.queue.sequential:
            return
        for row in database.errors.values():
            if row.state is ErrorState.DELETED or row.expired:
                self.deleted.add(row.place[1:])
        last: dict[tuple[int, bytes], int] = {}
        for effect in self._effects():
            place = (effect.partition, effect.offset)
            key = self.keys.get(place)
            if key is None or place in self.deleted:
                continue
            assert last.get((effect.partition, key), -1) < effect.offset, (key, self._effects())
            last[effect.partition, key] = effect.offset

    @invariant()
    def nothing_is_parked_behind_nothing(self) -> None:
        database = self.world.database
        for row in database.open_rows():
            if row.state is ErrorState.PARKED:
                assert not database.is_first_of_key(row), row
