"""The text of a message as a browser's text field shows it."""

from typing import Final

from integration.documents.layout import laid_out
from integration.selectors.failures import xml_layout
from integration.selectors.failures.payloads import is_json

# A browser stands still over longer text fields: 11 MB took one 10 to 15 seconds.
FIELD_CHARACTERS: Final = 2**20


def for_a_field(content: str | None) -> str | None:
    """Return the content laid out for an editor; None without one, or where it is too long."""
    if content is None or len(content) > FIELD_CHARACTERS:
        return None
    text = _readable(content)
    return text if len(text) <= FIELD_CHARACTERS else None


def _readable(text: str) -> str:
    """A text of one line with a line for each member or element; any other as it is."""
    if "\n" in text.strip():
        return text
    return laid_out(text) if is_json(text) else xml_layout.laid_out(text)
