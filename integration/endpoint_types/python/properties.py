"""The properties of an endpoint that is a Python function."""

from dataclasses import dataclass
from typing import ClassVar

from integration.endpoints.declared import Properties, declare, part, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonProperties(Properties):
    """A function of an installed app."""

    label: ClassVar[str] = "Python function"
    about: ClassVar[str] = "A function of your own app, for everything else."
    repeats: ClassVar[str] = (
        "Switch it on only when the function drops repeats of message.message_id."
    )
    parts = (part("Function", "function total_seconds"),)
    waits_at_most: ClassVar[str] = "total_seconds"

    function: str = declare(
        "Function",
        help="The name it was registered under with @endpoint_function, by an app of "
        "SLUICE_INTEGRATIONS.",
        is_needed=True,
    )
    total_seconds: float = seconds(
        "Seconds for a call", 60.0, "One that takes longer may have done its work or not."
    )
