"""The pages of the console as its menu shows them: in groups, with counts of what waits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.urls import get_script_prefix, resolve, reverse

from console.layout.access import Right, has, scope_of
from integration.selectors import badges
from integration.selectors.badges import Badge, Waiting
from integration.selectors.scope import Scope


class Button(NamedTuple):
    """A button that leads to another page: its address, and what it says."""

    address: str
    label: str


@dataclass(frozen=True, slots=True)
class Page:
    """One entry of the menu: the named page, for those with the rights that its view needs.

    It is the current one on every address below its own, unless another entry fits better. What
    all external systems share (`is_shared`) is not for people who are limited to some of them.
    """

    label: str
    name: str
    waiting: Waiting | None = None
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """An entry as the template draws it."""

    label: str
    address: str
    is_current: bool
    badge: Badge | None


# The pages by their heading; the first have none.
MENU: Final[Mapping[str, tuple[Page, ...]]] = {
    "": (
        Page("Overview", "overview", waiting=badges.QUEUES_IN_NEED),
        Page("Queues", "queues"),
        Page("Failures", "failures", waiting=badges.HELD),
        Page("Notices", "notices"),
        Page("Operations", "operations", waiting=badges.OPERATIONS),
        Page("Bulk jobs", "bulk", waiting=badges.BULK_RUNS),
        Page("Messages", "tracking"),
        Page("Outbox", "outbox"),
        Page("Delivery", "delivery"),
        Page("Charts", "charts"),
        Page("Cron tasks", "cron"),
        Page("Cleanup", "cleanup", is_shared=True),
    ),
    "Set up": (
        Page("New partner", "partner-new"),
        Page("Systems", "systems"),
        Page("Services", "services"),
        Page("Channels", "channels"),
        Page("Structures", "structures"),
        Page("Endpoints", "endpoints"),
        Page("Providers", "providers"),
        Page("Connections", "connections"),
        Page("Notice rules", "notice-rules", is_shared=True),
        Page("Recipients", "notice-recipients", is_shared=True),
        Page("Masking", "masking-rules"),
        Page("Events", "event-subscriptions"),
        Page("Changes", "changes"),
    ),
    "Administration": (
        Page("People", "people", is_shared=True),
        Page("Restore", "restore-page", is_shared=True),
    ),
}


def sections(user: User | AnonymousUser, path: str) -> list[tuple[str, list[Link]]]:
    """The menu of this person, drawn for the page at `path`: headings with their entries."""
    scope, at = scope_of(user), _addresses(get_script_prefix())
    mine = [
        (title, [(page, at[page.name]) for page in _open_to(user, pages, scope)])
        for title, pages in MENU.items()
    ]
    every = [address for _, pages in mine for _, address in pages]
    current = max((one for one in every if path.startswith(one)), key=len, default="")
    waiting = [page.waiting for _, pages in mine for page, _ in pages if page.waiting]
    counts = dict(zip(waiting, badges.counted(waiting, scope), strict=True))
    return [
        (
            title,
            [
                Link(page.label, to, to == current, counts[page.waiting] if page.waiting else None)
                for page, to in pages
            ],
        )
        for title, pages in mine
        if pages
    ]


def _open_to(user: User | AnonymousUser, pages: Iterable[Page], scope: Scope) -> Iterator[Page]:
    """Those of the pages that this person can open."""
    for page in pages:
        may = all(has(user, right) for right in _rights(page.name))
        if may and (scope.is_whole or not page.is_shared):
            yield page


@lru_cache(maxsize=2)
def _addresses(prefix: str) -> Mapping[str, str]:  # noqa: ARG001 - `reverse` knows it by itself
    """The addresses of the menu's pages by name, where the console is served below `prefix`."""
    return {page.name: reverse(page.name) for pages in MENU.values() for page in pages}


@cache
def _rights(name: str) -> tuple[Right, ...]:
    """The rights that the page itself asks for; see console.layout.access.needs."""
    rights: tuple[Right, ...] = resolve(
        f"/{reverse(name).removeprefix(get_script_prefix())}"
    ).func.rights  # type: ignore[attr-defined]
    return rights
