"""What a log of transactions promises, with the log in a topic and in the database."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from django.db import connection

from integration import connections
from integration.kafka.slots import Slot, SlotLostError
from integration.policy.states import BranchState
from integration.xa.branch import Branch, Place
from integration.xa.errors import XaDuplicateError
from integration.xa.outgoing import Outgoing
from integration.xa.xid import Xid
from tests.support.kafka_world import Kafka
from tests.support.xa import LOGS, a_factory, read

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


class World:
    """A log, a slot to write by, and a topic that messages are for."""

    def __init__(self, broker: Kafka, kind: str, held: ExitStack) -> None:
        a_factory(broker, kind)
        self.broker, self.topic = broker, broker.topic()
        resource = connections.lookup("payments").xa()
        self.log, self.side, self.slots = resource._log, resource._side, resource._slots
        self.log.check()
        self.side.check()
        self.slot: Slot = held.enter_context(self.slots.taken())

    def opened(self, *values: bytes, xid: Xid | None = None) -> Branch:
        mark = uuid.uuid4().hex

        def write() -> Place:
            messages = [Outgoing(self.topic, value, None) for value in values or (b"1",)]
            return self.side.write(self.slot, mark, messages)

        return self.log.open(self.slot, xid or Xid.fresh(1), mark, write)

    def prepared(self, *values: bytes) -> Branch:
        return self.log.prepare(self.slot, self.opened(*values))

    def deliver(self, branch: Branch, slot: Slot | None = None, **becomes: BranchState) -> None:
        by = slot or self.slot
        self.log.finish(by, branch, lambda: self.side.copy(branch, by), **becomes)

    def read(self) -> list[object]:
        return read(self.broker, self.topic)


@pytest.fixture(params=LOGS)
def world(request, servers):
    with ExitStack() as held:
        yield World(Kafka(servers.kafka_bootstrap), request.param, held)
    connections.close_all()


def test_a_branch_is_found_as_it_was_written_until_it_is_over(world):
    branch = world.opened(b"1", b"2")
    assert (branch.state, branch.place.count) == (BranchState.STARTED, 2)
    assert world.log.find(branch.xid) == branch
    prepared = world.log.prepare(world.slot, branch)
    assert prepared == branch.becoming(BranchState.PREPARED)
    assert world.log.find_fenced(branch.xid) == prepared
    other = world.opened()
    assert world.log.branches() == [prepared, other]
    world.log.finish(world.slot, prepared)
    world.log.finish(world.slot, other)
    assert world.log.branches() == []
    assert world.log.find(branch.xid) is None
    assert world.read() == []


def test_a_branch_that_is_there_is_not_written_again(world):
    branch = world.opened()
    with pytest.raises(XaDuplicateError):
        world.opened(xid=branch.xid)
    assert world.log.branches() == [branch]


def test_of_two_that_enter_one_xid_at_the_same_instant_one_is_told(world):
    """The second comes while the first one writes; who of the two is refused, the log says."""
    xid, inside, over = Xid.fresh(1), threading.Event(), threading.Event()

    def enter(slot: Slot, then: Callable[[], object]) -> object:
        mark = uuid.uuid4().hex

        def write() -> Place:
            then()
            return world.side.write(slot, mark, [Outgoing(world.topic, b"1", None)])

        try:
            return world.log.open(slot, xid, mark, write)
        except XaDuplicateError as refused:
            return refused
        finally:
            connection.close()

    def wait() -> None:
        inside.set()
        over.wait(1.0)

    def second() -> object:
        inside.wait(20)
        try:
            return enter(other, lambda: None)
        finally:
            over.set()

    with world.slots.taken() as other, ThreadPoolExecutor(2) as two:
        results = [
            each.result(60) for each in (two.submit(enter, world.slot, wait), two.submit(second))
        ]
    [entered] = [result for result in results if isinstance(result, Branch)]
    assert [type(result) for result in results if result is not entered] == [XaDuplicateError]
    assert world.log.branches() == [entered]


def test_messages_are_visible_exactly_if_their_branch_is_over(world):
    branch = world.prepared(b"1", b"2")

    def fail() -> None:
        world.side.copy(branch, world.slot)
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        world.log.finish(world.slot, branch, fail)
    assert world.read() == []
    world.slot.fence()
    assert world.log.find_fenced(branch.xid) == branch
    world.deliver(branch)
    assert world.read() == [1, 2]
    assert world.log.find_fenced(branch.xid) is None


def test_who_is_fenced_delivers_nothing_and_finds_what_the_other_has_done(world):
    branch = world.prepared()
    other = world.slots.of(branch.owner)
    assert world.log.find_fenced(branch.xid) == branch
    with pytest.raises(SlotLostError):
        world.deliver(branch)
    assert world.read() == []
    other.fence()
    found = world.log.find_fenced(branch.xid)
    assert found == branch
    world.deliver(found, other)
    other.close()
    world.slot.fence()
    assert world.log.find_fenced(branch.xid) is None
    assert world.read() == [1]


@pytest.mark.parametrize("becomes", [BranchState.COMMITTED, BranchState.ROLLED_BACK])
def test_what_a_person_decided_stays_until_it_is_forgotten(world, becomes):
    branch = world.prepared()
    if becomes is BranchState.COMMITTED:
        world.deliver(branch, becomes=becomes)
    else:
        world.log.finish(world.slot, branch, becomes=becomes)
    decided = branch.becoming(becomes)
    assert world.log.branches() == [decided]
    world.log.finish(world.slot, decided)
    assert world.log.branches() == []
    assert world.read() == ([1] if becomes is BranchState.COMMITTED else [])
