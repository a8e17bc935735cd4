"""The in-memory fake of what a rescue writes, held to the contract suite of the real one."""

from collections.abc import Callable

from integration.delivery.owned import Owned
from integration.delivery.rescuing import Piece, RescueStep, size_of
from tests.support.memory.tables import MemoryDatabase


class MemoryRescues:
    """See delivery.rescuing.RescueStore."""

    def __init__(self, database: MemoryDatabase) -> None:
        self.database = database

    def first_untried(self, owned: Owned) -> int:
        has_head = self.database.queue.sequential and self.database.head_of(owned) is not None
        return owned.next_offset + has_head

    def room(self) -> int:
        places = self.database.places.values()
        stored = [r for place in places for r in place.rescued_records.values()]
        return self.database.rescue_limit_bytes - sum(map(size_of, stored))

    def add(self, owned: Owned, piece: Piece, step: Callable[[RescueStep], None]) -> bool:
        step(RescueStep.BEGUN)
        step(RescueStep.COPIED)
        if not self.database.stands_at(owned):
            return False
        place = self.database.place(owned)
        place.rescued_records |= {record.offset: record for record in piece.records}
        ends = {end: first for first, end in place.rescued}
        first = ends.pop(piece.first, piece.first)
        kept = {(begin, end) for end, begin in ends.items()}
        place.rescued = tuple(sorted({*kept, (first, piece.end)}))
        step(RescueStep.COMMITTED)
        return True

    def note(self, owned: Owned, code: str, text: str) -> None:
        if self.database.is_owned(owned):
            self.database.place(owned).rescue_code = code
