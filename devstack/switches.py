"""Switches of `make run`: SAMPLE=0, SPARK=0 and the like, on unless told otherwise."""

from collections.abc import Mapping

from devstack import problems

SPARK = "SPARK"
KNOWN = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def is_on(name: str, variables: Mapping[str, str]) -> bool:
    """Read the switch. Raises Problem BAD_SWITCH."""
    said = variables.get(name, "").strip().lower()
    if said not in KNOWN:
        raise problems.bad_switch(name, said)
    return KNOWN[said]
