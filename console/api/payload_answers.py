"""What the operator API shows of payloads that nobody edits: of outgoing and tracked messages."""

from typing import Annotated, Any

from ninja import Schema
from pydantic import Field

from integration.selectors.failures.payloads import Contents, PayloadView


class ShownPayload(Schema):
    """A payload as its page shows it; what masking rules hide is never in it.

    `text` is null where there is nothing, or nothing that can be shown. `is_cut`: there is more.
    """

    text: str | None
    size: int
    is_hex: bool
    is_cut: bool
    flaw_code: str
    flaw_text: str
    is_masked: bool

    @classmethod
    def of(cls, view: PayloadView) -> "ShownPayload":
        return cls(**_facts_of(view), is_masked=bool(view.masked or view.is_hidden))


class ShownMessage(ShownPayload):
    """A payload with its key and headers, each a name and a value."""

    key: str
    headers: list[Annotated[list[str], Field(min_length=2, max_length=2)]]

    @classmethod
    def of_contents(cls, contents: Contents) -> "ShownMessage":
        return cls(
            **_facts_of(contents.current),
            is_masked=contents.is_masked,
            key=contents.key,
            headers=[list(header) for header in contents.headers],
        )


def _facts_of(view: PayloadView) -> dict[str, Any]:
    is_raw = not view.pretty
    return {
        "text": view.pretty or view.raw or None,
        "size": view.size,
        "is_hex": view.is_hex and is_raw,
        "is_cut": view.is_cut and is_raw,
        "flaw_code": view.flaw_code,
        "flaw_text": view.flaw_text,
    }
