"""An observer of a run that acts at a chosen step."""

from collections.abc import Callable

from integration.delivery.steps import Step


class AtStep:
    """An observer that does something when a step is reached for the nth time."""

    def __init__(self, step: Step, nth: int, act: Callable[[], object]) -> None:
        self.step_name, self.left, self.act = step, nth, act

    def step(self, step: Step) -> None:
        if step is self.step_name:
            self.left -= 1
            if self.left == 0:
                self.act()
