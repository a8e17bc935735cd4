"""A field for JSON that is read to its end, or refused: Django's lets some texts fail the page."""

import json
from typing import Any

from django import forms

from integration.envelope.json_flaw import MAX_DIGITS
from integration.plain import MOST_LEVELS, nests_deeply


class _Decoder(json.JSONDecoder):
    """Says of all that it cannot read that it is no JSON; Django expects nothing else."""

    def decode(self, s: str, *args: Any) -> Any:
        try:
            value = super().decode(s, *args)
        except json.JSONDecodeError:
            raise
        except (RecursionError, ValueError) as e:
            raise json.JSONDecodeError(str(e), s, 0) from e
        if nests_deeply(value):
            raise json.JSONDecodeError("it nests too deeply", s, 0)
        return value


class JsonField(forms.JSONField):
    """JSON within bounds that nobody meets who writes it by hand."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"decoder": _Decoder})
        self.error_messages["invalid"] = (
            f"Enter valid JSON, of at most {MOST_LEVELS} levels, with numbers of at most "
            f"{MAX_DIGITS:,} digits."
        )
