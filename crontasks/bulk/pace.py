"""How far a run is, with what it takes to tell its pace. Pure.

What was done before this start, by a try that stopped, is no measure of the pace: it is told
apart, so that neither the rows a second nor the time to go are too good.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def told(progress: Mapping[str, Any], begun: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """The progress at that moment, beside where its stage began in this start.

    `begun` is what was told before, by the same driver; empty where nothing was.
    """
    is_going_on = begun.get("stage") == progress["stage"] and "since" in begun
    first = begun if is_going_on else _first(progress, at)
    return {
        **progress,
        "at": at.isoformat(),
        "since": first["since"],
        "done_before": first["done_before"],
        "rows_before": first["rows_before"],
    }


def _first(progress: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    return {
        "since": at.isoformat(),
        "done_before": progress["done"],
        "rows_before": progress["rows"],
    }
