"""The in-memory fake of ownership: locks, epochs, unclean ends."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.ports import LostError
from integration.policy.shares import Runs, first_share, share
from integration.policy.states import ErrorState
from integration.values import Assignment
from tests.support.memory.rows import PlaceRow
from tests.support.memory.tables import MemoryDatabase
from tests.support.memory.unit_of_work import LOST


class MemoryPartitionManager:
    """See ports.PartitionManager. Its locks are the `owner` of each partition's row."""

    def __init__(
        self, database: MemoryDatabase, workers: int | None = 1, *, rescues: bool = False
    ) -> None:
        self.database = database
        self.workers = workers
        self.rescues = rescues
        self.calls = 0
        self._taken: list[Owned] = []
        self.lost = False

    def take(self, assigned: Callable[[], Assignment | None] | None = None) -> list[Owned]:
        if self.database.interrupt("take"):
            raise LostError(LOST)
        if self.database.removed:
            return []
        if self not in self.database.runs:
            self.database.runs.append(self)
        runs = self.runs()
        if assigned is not None:
            has_share = self.workers != 1 and share(runs, self.workers) > 0
            has_free = any(place.owner is None for place in self.database.places.values())
            if not (has_share or has_free):
                return []
            if (assignment := assigned()) is not None:
                return self.take_assigned(assignment)
        return self._free(first_share(runs, self.workers), lambda _: True)

    def die(self) -> None:
        """Free its locks as the end of its process does; nothing is given back."""
        self.database.locked.clear()
        if self in self.database.runs:
            self.database.runs.remove(self)
        for place in self.database.places.values():
            if place.owner is self:
                place.owner = None

    def runs(self) -> Runs:
        runs = self.database.runs
        if self not in runs:
            raise LostError(LOST)  # who took its partitions has ended its session
        return Runs(len(self.database.places), len(runs), runs.index(self))

    def take_more(self, count: int) -> list[Owned]:
        return self._free(count, lambda place: place.released)

    def take_assigned(self, assignment: Assignment) -> list[Owned]:
        places = len(self.database.places)
        taken = self._free(places, lambda place: place.partition in assignment.partitions)
        for owned in taken:
            owned.member = assignment.member
        return taken

    def take_only(self, ids: Sequence[int]) -> list[Owned]:
        return self._free(len(ids), lambda place: place.id in ids)

    def _free(self, most: int, may_take: Callable[[PlaceRow], bool]) -> list[Owned]:
        places = self.database.places.values()
        free = [place for place in places if place.owner is None and may_take(place)]
        taken = [self._take(place) for place in free[: max(0, most)]]
        self._taken += taken
        return taken

    def give_up(self, surplus: Sequence[Owned]) -> None:
        for owned in surplus:
            place = self.database.places[owned.partition]
            if place.owner is self:
                self._keep_suspect(place, owned)
                place.owner, place.released = None, True

    def ask_for_help(self) -> None:
        self.database.help_wanted = True

    def steal(self) -> None:
        """Free every lock without its owner's knowledge, as ending its session does."""
        self.database.locked.clear()
        self.database.runs.clear()
        for place in self.database.places.values():
            place.owner, place.locked = None, False

    def _take(self, place: PlaceRow) -> Owned:
        unclean = not place.released
        is_where_it_was = place.unclean_offset == place.next_offset or self._is_in_same(place)
        place.unclean_ends = (place.unclean_ends if is_where_it_was else 0) + unclean
        place.unclean_offset = place.next_offset
        place.rows_alone = 0 if unclean else place.rows_alone
        if not unclean:
            at, receipt = place.suspect_offset, place.suspect_receipt
            if not (place.suspect_crashes and self._is_ahead(place, at, receipt)):
                place.suspect_offset, place.suspect_crashes = None, 0
        elif place.suspect_offset is not None and place.has_marked:
            place.suspect_crashes += not self._row_in_work(place)
        place.has_marked = False
        place.epoch += 1
        place.owner, place.released = self, self.rescues
        is_lowest = place.partition == min(self.database.places)
        self._revert(place, is_lowest=is_lowest)
        return Owned(
            id=place.id,
            partition=place.partition,
            epoch=place.epoch,
            next_offset=place.next_offset,
            topic_uuid=place.topic_uuid,
            is_lowest=is_lowest,
            state=place.state,
            state_code=place.state_code,
            due=place.resume_at is None or place.resume_at <= self.database.clock.seconds,
            probes=place.probes,
            unclean_ends=place.unclean_ends,
            suspect_offset=place.suspect_offset,
            suspect_receipt=place.suspect_receipt,
            suspect_crashes=place.suspect_crashes,
            failed_until=self._failed_until(place),
            called_until=self._called_until(place),
            moved_until=self._moved_until(place),
            stop_at=place.stop_at,
            rescued=tuple(one for one in place.rescued if one[1] > place.next_offset),
            open_batch=self._open_batch(place),
            waits_for_others=place.begins_after is not None,
            lost_from=place.lost_from,
            has_parked=self.database.queue.sequential
            and any(
                row.parked and row.record.partition == place.partition
                for row in self.database.open_rows()
            ),
        )

    def _is_ahead(self, place: PlaceRow, offset: int | None, receipt: bytes | None) -> bool:
        """Whether a suspect that had this offset may still come; a JMS broker gives it another."""
        reach = 0 if receipt is None else self.database.queue.batch_size
        return offset is not None and offset >= place.next_offset - reach

    def _keep_suspect(self, place: PlaceRow, owned: Owned) -> None:
        """Others were marked, and the run ends in good order before it has come to its suspect."""
        at, receipt = owned.suspect_offset, owned.suspect_receipt
        is_ours = place.epoch == owned.epoch and not owned.has_met_suspect
        if is_ours and owned.suspect_crashes and self._is_ahead(place, at, receipt):
            place.suspect_offset, place.suspect_receipt = at, receipt
            place.suspect_crashes = owned.suspect_crashes

    def _is_in_same(self, place: PlaceRow) -> bool:
        """Whether the last death was within the batch that stands open."""
        batch, died_at = place.open_batch, place.unclean_offset
        is_open = batch is not None and place.next_offset < batch.until
        return batch is not None and is_open and died_at is not None and died_at >= batch.first

    def _open_batch(self, place: PlaceRow) -> OpenBatch | None:
        batch = place.open_batch
        if batch is None or place.next_offset >= batch.until:
            return None
        return replace(batch, done=set(place.done))

    def _failed_until(self, place: PlaceRow) -> int | None:
        here = (place.topic_uuid, place.partition)
        known = [row.place for row in self.database.errors.values()]
        offsets = [at for *where, at in known if tuple(where) == here and at >= place.next_offset]
        return max(offsets, default=None)

    def _called_until(self, place: PlaceRow) -> int | None:
        calls = [call.place for call in self.database.calls.rows.values()]
        here = [at for *where, at in calls if where == [place.topic_uuid, place.partition]]
        return max((at for at in here if at >= place.next_offset), default=None)

    def _moved_until(self, place: PlaceRow) -> int | None:
        moved_at = place.moves[0][0] if place.moves else 0
        rows = [row for row in self.database.errors.values() if row.failed_at < moved_at]
        here = [
            row.place[2] for row in rows if row.place[:2] == (place.topic_uuid, place.partition)
        ]
        return max((at + 1 for at in here if at >= place.next_offset), default=None)

    def _row_in_work(self, place: PlaceRow) -> bool:
        """Whether it was a marked row, not the suspect offset, that the owner died on."""
        return any(
            row.state is ErrorState.PROCESSING
            and (row.record.partition, row.epoch) == (place.partition, place.epoch)
            for row in self.database.errors.values()
        )

    def _revert(self, place: PlaceRow, *, is_lowest: bool) -> None:
        """Markers of earlier epochs: one crash and one attempt counted, due at once."""
        for row in list(self.database.errors.values()):
            stray = is_lowest and row.record.partition not in self.database.places
            if row.state is not ErrorState.PROCESSING or (row.epoch or 0) >= place.epoch:
                continue
            if row.record.partition == place.partition or stray:
                self.database.change(
                    row.id,
                    row.version,
                    state=ErrorState.RETRY,
                    epoch=None,
                    crashes=row.crashes + 1,
                    attempts=row.attempts + 1,
                    not_before=self.database.clock.seconds,
                    carrier="row",
                )

    def is_lost(self) -> bool:
        return self.lost

    def working(self) -> None:
        self.calls += 1

    def resting(self) -> None:
        return

    def close(self, *, clean: bool) -> None:
        if self in self.database.runs:
            self.database.runs.remove(self)
        for owned in self._taken if clean else ():
            if (place := self.database.places.get(owned.partition)) is not None:
                self._keep_suspect(place, owned)
        for place in self.database.places.values():
            if place.owner is self:
                place.owner = None
                place.released = place.released or clean
