"""Whether the stack shows the sample: its configuration as first data, and its traffic."""

from collections.abc import Mapping

from devstack import remembered, switches

VARIABLE = "SAMPLE"


def is_wanted(variables: Mapping[str, str]) -> bool:
    """Read `make run SAMPLE=0`; it is wanted unless told otherwise, or its app is not installed.

    Raises Problem BAD_SWITCH.
    """
    apps = variables.get(remembered.INTEGRATIONS, remembered.AT_FIRST).split(",")
    is_on = switches.is_on(VARIABLE, variables)
    return is_on and remembered.AT_FIRST in [app.strip() for app in apps]
