"""Every benchmark by its name, in the order in which they run."""

from collections.abc import Callable, Mapping
from typing import Final

from bench.cases import failing, inbound
from bench.figure import Figure
from bench.ground import Ground

BENCHMARKS: Final[Mapping[str, Callable[[Ground], Figure]]] = {
    function.__name__: function
    for function in (
        inbound.inbound_batch,
        inbound.inbound_per_message,
        inbound.inbound_vs_single_commit,
        failing.inbound_failing_5pct,
        failing.failing_1pct,
    )
}
