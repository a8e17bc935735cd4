"""Rescues in a story: at any moment, dying at any step, of whatever Kafka still has."""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from integration.delivery.rescuing import RescueStep
from tests.property.delivery_partners import Partners
from tests.support.fake_rescue import rescue_in
from tests.support.fake_world import Died


class Rescues(Partners):
    """Whoever copies what is in danger, a few records at a time."""

    @rule(ahead=st.integers(1, 8), dies_at=st.integers(1, 20))
    def rescue(self, ahead: int, dies_at: int) -> None:
        places = self.world.database.places.values()
        ends = {p: log.high for p, log in self.world.topic.partitions.items()}
        until = {p.partition: min(p.next_offset + ahead, ends[p.partition]) for p in places}
        left = dies_at

        def die(_: RescueStep) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise Died

        try:
            rescue_in(self.world, until, die, piece_records=2)
        except Died:
            return

    @invariant()
    def nothing_that_was_rescued_is_a_gap(self) -> None:
        for gap in self.world.database.gaps:
            for first, end in self.world.place(gap.partition).rescued:
                assert gap.end <= first or end <= gap.start, (gap, first, end)
