"""Things that an app brought along and can take away: registered, so that the console offers it.

The console knows no such app; it shows the title and the sentences, and asks before it happens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from integration.actions.configuration import Author
from integration.errors import IntegrationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Something that can be taken away as a whole.

    `is_there` answers cheaply; `goes` tells what would go, a sentence each; `carry_out` does it
    and tells what was done. It raises IntegrationError when it cannot.
    """

    name: str
    title: str
    about: str
    is_there: Callable[[], bool]
    goes: Callable[[], list[str]]
    carry_out: Callable[[Author], list[str]]


class NotConfirmedError(IntegrationError):
    """The word that confirms a removal was not typed, or no reason was given."""

    code = "NOT_CONFIRMED"

    def __init__(self, *, word: str) -> None:
        super().__init__(
            f"Nothing was removed: it needs the word “{word}” and a reason.",
            next_step="Type both and press the button again.",
        )


class Registry:
    """Name -> removal. Filled when Django starts, by the apps themselves."""

    def __init__(self) -> None:
        self._by_name: dict[str, Removal] = {}

    def add(self, removal: Removal) -> None:
        """One of the same name replaces it: apps are made ready once."""
        self._by_name[removal.name] = removal

    def get(self, name: str) -> Removal | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Removal]:
        return iter(self._by_name.values())


registry = Registry()


def carry_out(removal: Removal, author: Author, *, typed: str) -> list[str]:
    """Take it away and tell what was done. Raises NotConfirmedError, IntegrationError."""
    if typed.strip() != removal.name or not author.reason.strip():
        raise NotConfirmedError(word=removal.name)
    return removal.carry_out(author)
