"""People move a position back, whatever failed there: from then on the order of the log decides."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.policy.retry import RetryPolicy
from integration.policy.states import OPEN, ErrorState
from tests.support.fake_world import FakeWorld, Written

pytestmark = pytest.mark.fast

SENDS = st.tuples(
    st.sampled_from([b"a", b"a", b"b", None]), st.sampled_from(["ok", "permanent", "until"])
)
DECISIONS = st.tuples(st.sampled_from(["mend", "mend", "hold", "delete"]), st.integers(0, 100))
# What comes, a run, the time until people look, what they decide, and where the position goes.
ROUNDS = st.tuples(
    st.lists(SENDS, max_size=4),
    st.sampled_from([1.0, 31.0, 400.0]),
    st.lists(DECISIONS, max_size=3),
    st.none() | st.integers(0, 100),
)


class Story:
    """A queue, and what has happened to it since somebody last moved its position."""

    def __init__(self, **fields: Any) -> None:
        self.world = FakeWorld(retry=RetryPolicy(max_retries=2), batch_size=3, **fields)
        self.keys: dict[int, bytes | None] = {}
        self.deleted: set[int] = set()
        self.moved_to = 0
        self.effects_before = 0

    def go_on(
        self,
        sent: list[tuple[bytes | None, str]],
        seconds: float,
        decisions: list[tuple[str, int]],
        back: int | None,
    ) -> None:
        for key, deed in sent:
            self.keys[self.world.send(deed, key=key, until=2)] = key
        self.world.run()
        self.world.database.clock.advance(seconds)
        self.world.relay()
        errors = list(self.world.database.errors)
        for verb, which in decisions if errors else ():
            self.decide(verb, errors[which % len(errors)])
        if back is not None:
            self.moved_to = back % (self.world.place().next_offset + 1)
            self.effects_before = len(self.world.database.effects)
            self.world.go_back(self.moved_to)

    def decide(self, verb: str, error: Any) -> None:
        if verb == "mend":
            self.world.person("edit", error)
            self.world.person("release", error)
        elif self.world.person(verb, error) and verb == "delete":
            self.deleted.add(self.world.database.errors[error].record.offset)

    def end(self) -> None:
        """People correct and release everything, until nothing is left."""
        for _ in range(60):
            self.world.relay()
            self.world.run()
            self.world.database.clock.advance(3_600)
            held = [row for row in self.world.database.open_rows() if row.state is ErrorState.HOLD]
            for row in held:
                self.decide("mend", row.id)
        assert not [row for row in self.world.database.errors.values() if row.state in OPEN]
        assert self.world.place().next_offset == len(self.world.topic.partitions[0].records)

    def effects(self) -> list[Written]:
        found = self.world.database.effects[self.effects_before :]
        assert all(isinstance(effect, Written) for effect in found)
        return [effect for effect in found if effect.offset not in self.deleted]


@given(
    st.lists(ROUNDS, min_size=2, max_size=6),
    st.sampled_from(
        [
            {"sequential": True},
            {},
            {"keeps_keys_in_order": True},
            {"carrier": "topic"},
            {"keeps_keys_in_order": True, "carrier": "topic"},
        ]
    ),
)
@settings(max_examples=100)
def test_what_is_read_again_is_applied_once_and_as_new_as_its_place(rounds, fields):
    story = Story(**fields)
    for each in rounds:
        story.go_on(*each)
    story.end()

    effects = story.effects()
    offsets = [effect.offset for effect in effects]
    assert len(offsets) == len(set(offsets))
    read_again = {offset for offset in story.keys if offset >= story.moved_to}
    assert set(offsets) >= read_again - story.deleted
    by_age = sorted(effects, key=lambda effect: effect.arrival)
    assert [effect.offset for effect in by_age] == sorted(offsets)
    if fields.get("keeps_keys_in_order"):
        of_keys = defaultdict(list)
        for offset in offsets:
            of_keys[story.keys[offset]].append(offset)
        of_keys.pop(None, None)
        assert all(of_key == sorted(of_key) for of_key in of_keys.values()), of_keys
