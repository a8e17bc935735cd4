"""The pages where the ways out of problems begin."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.urls import reverse

from crontasks.problems.facts import Problem, Way


@dataclass(frozen=True, slots=True)
class PageLink:
    """A button: where it leads and what it says; without an address it is a command to type."""

    address: str
    label: str


@dataclass(frozen=True, slots=True)
class Told:
    """A problem as the page shows it."""

    problem: Problem
    link: PageLink | None


def told(found: list[Problem]) -> list[Told]:
    return [Told(problem, link(problem)) for problem in found]


def link(problem: Problem) -> PageLink | None:
    make = LINKS.get(problem.way)
    return None if make is None else make(problem)


def _queue(problem: Problem) -> PageLink:
    return PageLink(reverse("queue", args=[problem.subject]), "Open the queue")


def _configure(problem: Problem) -> PageLink:
    return PageLink(reverse("queue-change", args=[problem.subject]), "Change the queue")


def _failure(problem: Problem) -> PageLink:
    return PageLink(reverse("failure", args=[problem.subject]), "Open the failure")


def _outbox(problem: Problem) -> PageLink:
    return PageLink(f"{reverse('outbox')}?queue={problem.subject}", "Open the outbox")


def _waiting(problem: Problem) -> PageLink:  # noqa: ARG001 - every link is asked in the same way
    return PageLink(f"{reverse('outbox')}?state=PENDING", "Open the outbox")


def _endpoint(problem: Problem) -> PageLink:
    return PageLink(reverse("delivery-endpoint", args=[problem.subject]), "Open the endpoint")


def _system(problem: Problem) -> PageLink:
    return PageLink(reverse("system", args=[problem.number]), "Open the system")


def _service(problem: Problem) -> PageLink:
    return PageLink(reverse("service", args=[problem.number]), "Open the service")


def _provider(problem: Problem) -> PageLink:
    return PageLink(reverse("provider", args=[problem.number]), "Open the provider")


def _instance(problem: Problem) -> PageLink:
    return PageLink(reverse("cron-instance", args=[problem.number]), "Open the cron instance")


LINKS: Final[dict[Way, Callable[[Problem], PageLink]]] = {
    Way.QUEUE: _queue,
    Way.CONFIGURE_QUEUE: _configure,
    Way.FAILURE: _failure,
    Way.OUTBOX: _outbox,
    Way.OUTBOX_WAITING: _waiting,
    Way.ENDPOINT: _endpoint,
    Way.SYSTEM: _system,
    Way.SERVICE: _service,
    Way.PROVIDER: _provider,
    Way.INSTANCE: _instance,
}
