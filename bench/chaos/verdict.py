"""The line of the chaos run, and whether it is one to be pleased with."""

from collections.abc import Mapping
from typing import Any, Final

from bench.chaos.deeds import DEEDS

# Each of these is nought, or something was promised that is not kept.
NOUGHT: Final = (
    *("lost", "doubled", "strangers", "out_of_order"),
    *("out_lost", "out_doubled", "out_out_of_order", "left", "untrue"),
)
# From so many seconds on a run has everything in it, or it proves less than it says.
WHOLE_SECONDS: Final = 60
FAULTS: Final = (*DEEDS, "clock_skewed")
FAILURES: Final = (
    *("TRANSIENT_ERROR", "PERMANENT_ERROR", "MISSING_DEPENDENCY", "DEADLOCK"),
    *("UTF16", "TRUNCATED_JSON", "UNKNOWN_SERVICE", "PROCESS_CRASH"),
)
ACTIONS: Final = ("edited", "released", "deleted", "parked")


def shortcomings(line: Mapping[str, Any]) -> list[str]:
    """Say what keeps this line from being a good one."""
    wrong = [f"{name} is {line[name]}" for name in NOUGHT if line[name]]
    if not line["sent"]:
        wrong.append("nothing was sent")
    return wrong + (missing(line) if line["seconds"] >= WHOLE_SECONDS else [])


def missing(line: Mapping[str, Any]) -> list[str]:
    """Name the faults, failures and decisions of which there was none."""
    faults = [f"no {kind}" for kind in FAULTS if not line["faults"].get(kind)]
    failures = [f"no {code}" for code in FAILURES if not line["failures"].get(code)]
    actions = [f"nothing {name}" for name in ACTIONS if not line[name]]
    return faults + failures + actions
