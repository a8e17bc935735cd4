"""What a handler has called when the retries of its message are spent: once, with the hold."""

from dataclasses import replace
from typing import Any

import pytest
from psycopg import errors as pg

from integration.delivery.report import RunEnding
from integration.delivery.snapshot import Service
from integration.delivery.steps import Step
from integration.handlers.outbound import Outbound, current
from integration.handlers.registry import Registration
from integration.message import Message
from integration.policy.failure import Failure
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, OutboxKind
from integration.values import Outgoing
from tests.support.deliveries import a_message, a_record
from tests.support.fake_world import Died, FakeWorld, Script

pytestmark = pytest.mark.fast

KINDS = pytest.mark.parametrize("sequential", [True, False])


class Told(FakeWorld):
    """A world whose handler ONE has a hook, which writes, publishes, and then does as told."""

    def __init__(self, does: str = "", interface: str = "ONE", **fields: Any) -> None:
        self.does = does
        self.called: list[tuple[int, int, str]] = []
        self.ids: list[str] = []
        super().__init__(default_interface=interface, **({"carrier": "row"} | fields))

    def services(self, refusal: Failure | None = None) -> dict[str, Service]:
        def hooked(service: Service) -> Service:
            taker = service.taker
            assert isinstance(taker, Registration)
            return replace(service, taker=replace(taker, on_exhausted=self.exhausted))

        return {name: hooked(one) for name, one in super().services(refusal).items()}

    def exhausted(self, message: Message, failure: Failure) -> None:
        self.called.append((message.offset, message.attempt, failure.code))
        self.repository.effect(f"told of {message.offset}")
        outbound = current.get()
        assert outbound is not None
        self.ids.append(outbound.next_name() or "")
        outbound.append(Outgoing(topic="told", value=b"", message_id=self.ids[-1]))
        match self.does:
            case "raise":
                raise KeyError("of the hook")
            case "refuse":
                self.repository.refuse(pg.UniqueViolation("twice"))
            case "swallow":
                self.swallow()
            case "orphan":
                self.repository.effect("orphan", orphan=True)
            case "break":
                self.database.interrupt = lambda name: name == "refuse"
                try:
                    self.repository.refuse(pg.UniqueViolation("twice"))
                finally:
                    self.database.interrupt = lambda _: False

    def told(self) -> list[object]:
        return [effect for effect in self.database.effects if isinstance(effect, str)]

    def published(self) -> list[str]:
        rows = [row.outgoing for row in self.database.outbox]
        return [row.message_id for row in rows if row.kind == OutboxKind.MESSAGE]


@KINDS
@pytest.mark.parametrize("interface", ["ONE", "ALONE", "BATCH", "MUTE"])
def test_it_is_called_once_when_the_last_retry_has_failed(sequential, interface):
    world = Told(interface=interface, sequential=sequential, retry=RetryPolicy(max_retries=2))
    world.send()
    world.send("transient")
    for _ in range(4):
        world.run()
        world.database.clock.seconds += 60
    assert world.called[-1] == (1, 3, "TRANSIENT_ERROR")
    assert (world.told(), len(world.published())) == (["told of 1"], 1)
    row = world.row(1)
    assert (row.state, row.code, row.attempts) == (ErrorState.HOLD, "TRANSIENT_ERROR", 3)


@pytest.mark.parametrize("do", ["ok", "permanent", "verdict", "outage"])
def test_what_ends_otherwise_does_not_call_it(do):
    world = Told(retry=RetryPolicy(max_retries=0))
    world.down = True
    world.send(do)
    world.run()
    assert (world.called, world.told()) == ([], [])


@KINDS
@pytest.mark.parametrize("does", ["raise", "refuse", "swallow", "orphan"])
def test_a_hook_that_fails_leaves_nothing_and_the_message_is_held(sequential, does):
    world = Told(does, sequential=sequential, retry=RetryPolicy(max_retries=0))
    for do in ("ok", "transient", "ok"):
        world.send(do)
    world.run()
    assert (world.told(), world.published()) == ([], [])
    assert world.row(1).state is ErrorState.HOLD
    assert world.row(1).code == "EXHAUSTED_HOOK_FAILED"
    assert world.effects() == ([0] if sequential else [0, 2])
    [text] = [one.code for one in world.database.tries if one.error == world.row(1).id]
    assert text == "EXHAUSTED_HOOK_FAILED"


@KINDS
@pytest.mark.parametrize("step", [Step.SETTLED, Step.CHECKED, Step.COMMITTED])
def test_a_death_around_it_does_not_make_it_count_twice(sequential, step):
    world = Told(sequential=sequential, retry=RetryPolicy(max_retries=0))
    world.send("transient")

    def die(at: Step) -> None:
        if at is step and world.called:
            raise Died

    for _ in range(2):
        script = Script()
        script.step = die  # type: ignore[method-assign] # dies wherever the hook has been called
        try:
            world.run(script)
        except Died:
            continue
    world.run()
    assert (world.told(), len(world.published())) == (["told of 0"], 1)


def test_after_a_release_it_is_called_again_with_other_ids():
    world = Told(retry=RetryPolicy(max_retries=0))
    world.send("transient")
    world.run()
    assert world.person("release", world.row(0).id)
    world.run()
    assert [call[:2] for call in world.called] == [(0, 1), (0, 2)]
    assert len(set(world.published())) == 2


def test_its_ids_are_not_those_of_the_handler():
    """A partner that drops repeats would drop what the released message publishes at last."""
    outbound, message = Outbound(), a_message(a_record())
    message.topic_uuid = "topic"
    outbound.begin(message)
    handler = outbound.next_name()
    outbound.begin(message, since="exhausted 3")
    hook = outbound.next_name()
    outbound.begin(message)
    assert handler == outbound.next_name() != hook


def test_a_session_that_breaks_in_it_ends_the_run_and_nothing_is_written():
    world = Told("break", retry=RetryPolicy(max_retries=0))
    world.send("transient")
    assert world.run().ending is RunEnding.LOST
    assert (world.told(), world.database.errors) == ([], {})
    world.does = ""
    world.run()
    assert world.told() == ["told of 0"]
