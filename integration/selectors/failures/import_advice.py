"""What to do about rows that a bulk import rejected."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

RETYPE: Final = (
    "Edit: write the document that the row should have become, then release it; or delete it, and "
    "import the mended file again."
)
FILL_IN: Final = "Edit: correct the value that is named, then release it. Many are mended at once."

IMPORTING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BAD_CSV": RETYPE,
        "COLUMN_COUNT": RETYPE,
        "ROW_TOO_LONG": RETYPE,
        "NO_OBJECT": RETYPE,
        "VALUE_TWICE": FILL_IN,
        "BAD_ENCODING": "Delete it, and import the file again in its own encoding; or write the "
        "document under Edit and release it.",
        "MISSING_VALUE": FILL_IN,
        "WRONG_KIND": FILL_IN,
        "UNJUDGED": "Edit: correct the value, or correct the JSON Schema of the object structure "
        "under Set up. Then release it.",
        "DUPLICATE_ROW": "Delete it if the earlier row is right. Release it to store this one "
        "in its place.",
    }
)
