"""An empty installation as a list of steps, of which the next one is a button."""

from dataclasses import dataclass

from django.urls import reverse

from integration.selectors.first_steps import present
from integration.selectors.scope import Scope


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it is for, where it is done, and whether it is."""

    title: str
    why: str
    address: str
    label: str
    is_done: bool


@dataclass(frozen=True, slots=True)
class Beginning:
    """The steps to the first message; `next` is the first that is not done."""

    steps: tuple[Step, ...]

    @property
    def next(self) -> Step | None:
        return next((step for step in self.steps if not step.is_done), None)


def beginning(scope: Scope) -> Beginning | None:
    """The steps in their order; None for people limited to some systems: it is not theirs."""
    if not scope.is_whole:
        return None
    there = present()
    return Beginning(
        (
            Step(
                "Provider",
                "The Kafka cluster and how to reach it.",
                reverse("provider-new"),
                "Add a provider",
                there.provider,
            ),
            Step(
                "External system",
                "The partner whose messages these are.",
                reverse("system-new"),
                "Add a system",
                there.system,
            ),
            Step(
                "Enterprise service",
                "What takes a type of message: a handler, or an object structure.",
                reverse("service-new"),
                "Add a service",
                there.service,
            ),
            Step(
                "Queue",
                "A topic with rules for failures; saving it starts its schedule.",
                reverse("queue-new"),
                "Add a queue",
                there.queue,
            ),
            Step(
                "Test message",
                "Send one from the queue's page and follow it to its outcome.",
                "",
                "",
                is_done=False,
            ),
        )
    )
