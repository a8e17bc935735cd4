"""One thing that was looked at: whether it is as it should be, and what to do if not."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from integration.selectors.queues.status import Situation

Finding = str | Situation
"""The result of one look: a sentence on what is as it should be, or what is not."""


class Health(Enum):
    """The verdict of one look."""

    OK = "ok"
    FAILING = "failing"
    UNKNOWN = "unknown"  # could not be looked at, because something before it failed


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A finding under its name: `next_step` is empty when there is nothing to do.

    `detail` may name internal hosts and environments: for commands and mails, not for pages.
    """

    name: str
    health: Health
    why: str
    next_step: str = ""
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.health is Health.OK


def check(name: str, found: Finding) -> HealthCheck:
    """The finding under this name."""
    return good(name, found) if isinstance(found, str) else broken(name, *found)


def good(name: str, why: str, next_step: str = "") -> HealthCheck:
    return HealthCheck(name, Health.OK, why, next_step)


def broken(name: str, why: str, next_step: str, detail: str = "") -> HealthCheck:
    return HealthCheck(name, Health.FAILING, why, next_step, detail)


def first_broken(checks: Iterable[HealthCheck]) -> HealthCheck | None:
    """The one to mend first."""
    return next((one for one in checks if not one.ok), None)


def lines(checks: Iterable[HealthCheck]) -> list[str]:
    """Return the lines that a command shows."""
    shown = []
    for one in checks:
        mark = "ok    " if one.ok else "BROKEN"
        shown.append(f"{mark}  {one.name:<10}  {one.why} {one.detail}".rstrip())
        if not one.ok:
            shown.append(f"{'':20}-> {one.next_step}")
    return shown


def reason(problem: Exception) -> str:
    """The first line of what a database says: the others guess at the cause."""
    text = str(problem).strip()
    return text.splitlines()[0].rstrip(".") if text else type(problem).__name__
