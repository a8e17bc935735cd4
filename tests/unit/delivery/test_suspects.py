"""A message that its process died of too often is held, and no other one for it."""

import pytest

from tests.support.fake_world import FakeWorld

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("receipt", "held", "effects"), [(None, ["PROCESS_CRASH"], []), (b"another", [], [0])]
)
def test_who_got_the_offset_of_a_suspect_at_a_jms_broker_is_tried(receipt, held, effects):
    world = FakeWorld()
    world.send()
    place = world.place()
    place.suspect_offset, place.suspect_crashes, place.suspect_receipt = 0, 3, receipt
    world.run()
    assert [row.code for row in world.database.errors.values()] == held
    assert (world.effects(), place.next_offset) == (effects, 1)
