"""The root of every error with a code that leaves its room: a sentence and the next step."""

from typing import ClassVar


class IntegrationError(Exception):
    """This code could not do its work.

    Verdicts about messages are values, never exceptions; see integration.policy.
    Subclasses set `code` (stable, stored and filtered on) and build the sentence from their
    typed fields; `next_step` tells the person who meets it what to do now.
    """

    code: ClassVar[str] = "INTEGRATION_ERROR"

    def __init__(self, sentence: str, *, next_step: str = "") -> None:
        super().__init__(f"{sentence} {next_step}".strip())
        self.sentence = sentence
        self.next_step = next_step
