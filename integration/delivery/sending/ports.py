"""The port that sending needs besides those of every run: the state of endpoints."""

from dataclasses import dataclass
from typing import Protocol

from integration.policy.circuit import Circuit, Move


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStatus:
    """An endpoint as the database knows it now; seconds are left from now by its clock."""

    circuit: Circuit
    version: int
    resume_seconds: float | None = None
    text: str = ""
    enabled: bool = True
    system_enabled: bool = True
    paused_seconds: float | None = None


class Circuits(Protocol):
    """The endpoints' rows that all runs share. Every change is compare-and-set on `version`.

    Raises LostError when the session is gone.
    """

    def look(self, endpoint: int) -> EndpointStatus:
        """Return how the endpoint stands now."""

    def probe(self, endpoint: int, version: int, seconds: float) -> int | None:
        """Take the one probe of a circuit whose pause is over; the new version, or None.

        A probe not heard of for `seconds` may be taken again by another run.
        """

    def move(self, endpoint: int, version: int, move: Move, code: str, text: str) -> int | None:
        """Write a move with why it is made; the new version, or None when it had changed."""

    def slots(self, endpoint: int, count: int, per_second: float) -> float:
        """Take `count` messages of the endpoint's rate. 0: granted; else seconds until one is free.

        They are at most policy.circuit.most_together of the rate, and are granted together: who
        comes next waits the longer. A slot at most a fifth of a second ahead is granted: nobody
        holds one asleep for long.
        """
