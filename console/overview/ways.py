"""The pages where the ways out of problems begin."""

from typing import Final

from django.urls import reverse

from console.layout.navigation import Button
from crontasks.problems.facts import Problem, Way

OPEN_THE_OUTBOX: Final = "Open the outbox"
BY_SUBJECT: Final = {
    Way.QUEUE: ("queue", "Open the queue"),
    Way.CONFIGURE_QUEUE: ("queue-change", "Change the queue"),
    Way.FAILURE: ("failure", "Open the failure"),
    Way.ENDPOINT: ("delivery-endpoint", "Open the endpoint"),
}
BY_NUMBER: Final = {
    Way.SYSTEM: ("system", "Open the system"),
    Way.SERVICE: ("service", "Open the service"),
    Way.PROVIDER: ("provider", "Open the provider"),
    Way.CONNECTION: ("connection", "Open the connection"),
    Way.INSTANCE: ("cron-instance", "Open the cron instance"),
}


def link(problem: Problem) -> Button | None:
    """A button for this problem; None where its way out is a command to type."""
    if problem.way in BY_SUBJECT:
        page, label = BY_SUBJECT[problem.way]
        return Button(reverse(page, args=[problem.subject]), label)
    if problem.way in BY_NUMBER:
        page, label = BY_NUMBER[problem.way]
        return Button(reverse(page, args=[problem.number]), label)
    if problem.way is Way.OUTBOX:
        return Button(f"{reverse('outbox')}?queue={problem.subject}", OPEN_THE_OUTBOX)
    if problem.way is Way.OUTBOX_WAITING:
        return Button(f"{reverse('outbox')}?state=PENDING", OPEN_THE_OUTBOX)
    return None
