"""What can be wrong with a configuration file: every mistake at once, each with its line."""

from collections.abc import Sequence
from dataclasses import dataclass

from integration.errors import IntegrationError


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake: its line in the file, what it is about, and a sentence."""

    line: int
    place: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {f'{self.place}: ' if self.place else ''}{self.text}"


class ConfigFileError(IntegrationError):
    """The file cannot be applied; nothing was changed."""

    code = "CONFIG_FILE"

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = sorted(set(mistakes))
        count = len(self.mistakes)
        told = "a mistake" if count == 1 else f"{count:,} mistakes"
        super().__init__(
            f"The file has {told}, so nothing was changed.",
            next_step="Correct the lines that are named and run it again.",
        )


class SecretReferenceError(IntegrationError):
    """A secret in the file cannot be found where it is said to be."""

    code = "SECRET_REFERENCE"

    def __init__(self, why: str) -> None:
        super().__init__(why, next_step="Write ${ENV:NAME} and set NAME, or “kept”.")
