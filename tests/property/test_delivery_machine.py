"""Whatever fails and whenever: every message ends exactly once. Without the fence it does not."""

import random

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, core, settings
from hypothesis.stateful import run_state_machine_as_test

from integration.delivery.owned import Owned
from tests.property.delivery_machine import RunContext
from tests.support.memory.tables import MemoryDatabase

pytestmark = pytest.mark.fast


class Unfenced(MemoryDatabase):
    """A database that lets an old epoch write."""

    def is_owned(self, owned: Owned) -> bool:
        return True

    def stands_at(self, owned: Owned) -> bool:
        return True


def explore(machine: type[RunContext], *, examples: int, steps: int) -> None:
    """Run the machine from a printed seed; pytest shows it when the test fails."""
    given = core.global_force_seed
    number = random.SystemRandom().getrandbits(32) if given is None else given
    print(f"repeat with --hypothesis-seed={number}")
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=True,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(hypothesis.seed(number)(machine), settings=chosen)


def test_whatever_fails_every_message_ends_exactly_once() -> None:
    explore(RunContext, examples=150, steps=30)


PLAIN = {
    "partitions": 1,
    "carrier": "row",
    "retries": 1,
    "batch_size": 2,
    "on_gap": "block",
    "on_head_expired": "advance",
    "dedupe": False,
    "failure_threshold": 0,
    "copies": False,
    "keyed": False,
    "concurrency": 1,
    "seed": 0,
}


def taken_over_at_every_step(tables: type[MemoryDatabase], *, sequential: bool) -> None:
    """A worker is stopped at each of its steps in turn while another works through everything."""
    for at in range(1, 30):
        context = RunContext()
        context.tables = tables
        context.begin(sequential=sequential, **PLAIN)
        for do in ("ok", "transient", "ok", "ok"):
            context._sent(do, 0)
        context.be_taken_over(at)
        context.everything_is_accounted_for()
        context.effects_are_those_of_the_applied()


@pytest.mark.parametrize("sequential", [True, False])
def test_a_stopped_owner_that_goes_on_changes_nothing_at_any_step(*, sequential: bool) -> None:
    taken_over_at_every_step(MemoryDatabase, sequential=sequential)


@pytest.mark.parametrize("sequential", [True, False])
def test_without_the_fence_a_stopped_owner_doubles(*, sequential: bool) -> None:
    with pytest.raises(AssertionError):
        taken_over_at_every_step(Unfenced, sequential=sequential)
