"""Reasons why something masked was not handed out, or not changed."""

from typing import ClassVar, Final

from integration.errors import IntegrationError

UNCOVERED_PLACE: Final = (
    "The record would be read in another way, in which hidden values were seen: an envelope was "
    "put around the document, or taken away."
)
NO_VALUE: Final = (
    "stands for no value: where the text is from, values were masked in another way. Open the "
    "message again."
)
WHOLE_RECORD: Final = (
    "The text is the whole record, and only the document in it can be edited while values are "
    "masked. Open the message again."
)


class MaskedError(IntegrationError):
    """The bytes of a message were asked for, of which masking rules hide values."""

    code: ClassVar[str] = "MASKED"

    def __init__(self, what: str = "this message") -> None:
        super().__init__(
            f"Masking rules hide values of {what}, so its bytes are not handed out.",
            next_step="Reveal it on its page first, with a reason; that takes the right to reveal.",
        )


class MaskMovedError(IntegrationError):
    """An edit moved, doubled or broke a placeholder; the true value cannot be put back."""

    code: ClassVar[str] = "MASK_MOVED"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"MASK_MOVED: nothing was saved. {why}",
            next_step="Leave each placeholder where it is, delete it together with its member, or "
            "write a new value in its place.",
        )


class MaskedSourceError(IntegrationError):
    """A bulk edit would compare or copy what masking rules may hide."""

    code: ClassVar[str] = "MASKED_SOURCE"

    def __init__(self, step: str) -> None:
        super().__init__(
            f"“{step}” compares or copies values, and masking rules hide values of these messages.",
            next_step="Set values instead, or have somebody do it who may reveal masked values.",
        )
