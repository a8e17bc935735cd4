"""An empty installation as a list of steps, of which the next one is a button."""

from dataclasses import dataclass
from typing import Any, Final

from django.urls import reverse

from integration.selectors.first_steps import present
from integration.selectors.scope import Scope

# Title, what it is for, the page where it is done, the label of the button there.
STEPS: Final = (
    (
        "Provider",
        "The Kafka cluster or JMS broker, and how to reach it.",
        "provider-new",
        "Add a provider",
    ),
    ("External system", "The partner whose messages these are.", "system-new", "Add a system"),
    (
        "Enterprise service",
        "What processes a type of message: a handler or an object structure.",
        "service-new",
        "Add a service",
    ),
    (
        "Queue",
        "A topic with rules for failures; saving it starts its schedule.",
        "queue-new",
        "Add a queue",
    ),
    (
        "Test message",
        "Send one from the queue's page and follow it to its outcome.",
        "",
        "",
    ),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it is for, where it is done, and whether it is."""

    title: str
    why: str
    address: str
    label: str
    is_done: bool


def beginning(scope: Scope) -> dict[str, Any] | None:
    """The steps in their order, and the next; None for people limited to some systems."""
    if not scope.is_whole:
        return None
    steps = [
        Step(title, why, reverse(page) if page else "", label, is_done)
        for (title, why, page, label), is_done in zip(STEPS, (*present(), False), strict=True)
    ]
    return {"steps": steps, "next": next(step for step in steps if not step.is_done)}
