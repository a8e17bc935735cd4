"""The rule by which an endpoint that is down is left alone, and tried again. Pure."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from integration.policy.states import CircuitState

# Delivery goes on within five seconds of the endpoint's recovery: this pause, half a second until
# the dispatcher looks, and the start of a run.
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 2.0
JITTER: Final = 0.1
# An endpoint may ask for a longer pause (Retry-After), but not for being forgotten.
LONGEST_ASKED_SECONDS: Final = 3_600.0
# A run that did not get the probe looks again so soon.
OTHERS_WAIT_SECONDS: Final = 1.0
FIRST_CHARGED_PROBE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """One endpoint: `failures` in a row without a success, `probes` made since it opened."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    probes: int = 0


CLOSED: Final = Circuit()


@dataclass(frozen=True, slots=True)
class Move:
    """The next state of the circuit; `pause_seconds` until the next probe when it opens."""

    circuit: Circuit
    pause_seconds: float | None = None


def most_together(per_second: float) -> int:
    """Return how many messages may go in one call, so that a limit of so many a second is kept.

    >>> most_together(0.5), most_together(10), most_together(10.5)
    (1, 10, 11)
    """
    return max(1, ceil(per_second))


def after_success(circuit: Circuit, *, is_probe: bool) -> Move | None:
    """The endpoint worked, whatever it said about the message. None: nothing changes.

    While it is open only the probe's word counts: a call that began before is older news.
    """
    if circuit.state is CircuitState.CLOSED:
        return Move(CLOSED) if circuit.failures else None
    return Move(CLOSED) if is_probe else None


def after_unreachable(
    circuit: Circuit, *, is_probe: bool, asked_seconds: float | None, roll: float
) -> Move | None:
    """One is enough to open it. None: it is open already, and this was not the probe."""
    if circuit.state is not CircuitState.CLOSED and not is_probe:
        return None
    return _opened(circuit, asked_seconds, roll)


def after_failure(circuit: Circuit, *, is_probe: bool, open_after: int, roll: float) -> Move | None:
    """A message it did not take now, or did not answer: `open_after` in a row open it."""
    if is_probe:
        return _opened(circuit, None, roll)
    if circuit.state is not CircuitState.CLOSED:
        return None
    failures = circuit.failures + 1
    if failures >= open_after:
        return _opened(replace(circuit, failures=failures), None, roll)
    return Move(replace(circuit, failures=failures))


def spends(circuit: Circuit) -> bool:
    """Return whether a failed probe counts as a try of its message.

    Mostly not, or an hour of failures would fill the error table. But a message that fails
    alone must not keep the endpoint closed to all others: the 8th, 16th, 32nd … probe counts.
    """
    made = circuit.probes + 1
    return made >= FIRST_CHARGED_PROBE and made & (made - 1) == 0


def probe_pause_seconds(probes: int, roll: float) -> float:
    """Seconds before the next probe: 0.5, 1, 2, 2, … and up to a tenth longer."""
    pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(probes, 8))
    return pause * (1 + JITTER * roll)


def _opened(circuit: Circuit, asked_seconds: float | None, roll: float) -> Move:
    was_open = circuit.state is not CircuitState.CLOSED
    probes = circuit.probes + 1 if was_open else 0
    pause = probe_pause_seconds(probes, roll)
    if asked_seconds is not None:
        pause = max(pause, min(asked_seconds, LONGEST_ASKED_SECONDS))
    opened = replace(circuit, state=CircuitState.OPEN, probes=probes)
    return Move(opened, pause)
