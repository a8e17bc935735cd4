"""Whether the stack shows the sample: its configuration as first data, and its traffic."""

from collections.abc import Mapping

from devstack import problems, remembered

VARIABLE = "SAMPLE"
KNOWN = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def is_wanted(variables: Mapping[str, str]) -> bool:
    """Read `make run SAMPLE=0`; it is wanted unless told otherwise, or its app is not installed.

    Raises Problem BAD_SWITCH.
    """
    said = variables.get(VARIABLE, "").strip().lower()
    if said not in KNOWN:
        raise problems.bad_switch(VARIABLE, said)
    apps = variables.get(remembered.INTEGRATIONS, remembered.AT_FIRST).split(",")
    return KNOWN[said] and remembered.AT_FIRST in [app.strip() for app in apps]
