"""One printed result: a value in its unit, a ratio where one is asked, and whether it is enough."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a result: a bound of its value or of its ratio."""

    of: Literal["value", "ratio"]
    bound: float
    at_least: bool

    def is_met_by(self, figure: "Figure") -> bool:
        measured = figure.value if self.of == "value" else figure.ratio
        if measured is None:
            return False
        return measured >= self.bound if self.at_least else measured < self.bound

    def __str__(self) -> str:
        return f"{self.of} {'>=' if self.at_least else '<'} {self.bound:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A result. `unit` belongs to `value`; `ratio` is a quotient against what `against` names.

    `facts` are further numbers worth reading beside it; `claims` are things that must be true
    besides the target, such as that 25 messages are held. A fact `stalled` lists runs that stood
    still for a while (see `pairs.Paired`): with one of them no figure is enough.
    """

    name: str
    value: float
    unit: str
    n: int
    ratio: float | None = None
    against: str = ""
    target: Target | None = None
    claims: Mapping[str, bool] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        reached = self.target is None or self.target.is_met_by(self)
        return reached and not self.missed

    @property
    def missed(self) -> list[str]:
        """What had to be true besides the target, and is not."""
        missed = [claim for claim, holds in self.claims.items() if not holds]
        return [*missed, "no run stood still"] if self.facts.get("stalled") else missed

    def line(self, **more: object) -> str:
        """The figure as one line of JSON; `more` is told beside it."""
        shown: dict[str, object] = {
            "name": self.name,
            "value": _short(self.value),
            "unit": self.unit,
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "against": self.against,
        }
        if self.target is not None:
            shown["target"] = str(self.target)
        shown |= {"ok": self.is_ok, "n": self.n, "missed": self.missed}
        return json.dumps({**shown, **self.facts, **more})


def _short(value: float) -> float:
    return round(value) if abs(value) >= 1_000 else round(value, 2)


def at_least(of: Literal["value", "ratio"], bound: float) -> Target:
    return Target(of=of, bound=bound, at_least=True)


def below(of: Literal["value", "ratio"], bound: float) -> Target:
    return Target(of=of, bound=bound, at_least=False)
