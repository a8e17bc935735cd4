"""The dry run of a bulk edit: every message is changed in memory, and nothing is stored.

It goes through the messages a slice at a time, so that no request lasts long, and keeps what it
found on the operation.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from integration.models import Operation, OperationItem
from integration.policy.states import ErrorState
from integration.recipe_rules import rules_now, subject_of
from integration.recipe_use import Changed, Rules, Same, use
from integration.recipes import Misfit, Recipe, compile_recipe
from integration.store import operations as store

SLICE_SECONDS: Final = 4.0
STEP_ROWS: Final = 250
SAMPLES: Final = 5
# Reasons beyond these are counted together: a schema may name something else in each message.
MOST_REASONS: Final = 40
OTHERWISE: Final = "Other reasons."


@dataclass(slots=True)
class Trial:
    """What a dry run has found up to item `at`; `samples` are the first items that change."""

    at: int = 0
    fits: int = 0
    same: int = 0
    absent: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    samples: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, operation: Operation) -> "Trial":
        kept: Mapping[str, Any] = operation.trial or {}
        return cls(
            kept.get("at", 0),
            kept.get("fits", 0),
            kept.get("same", 0),
            kept.get("absent", 0),
            Counter(kept.get("reasons", {})),
            list(kept.get("samples", [])),
        )

    @property
    def invalid(self) -> int:
        return self.reasons.total()

    @property
    def ranked(self) -> list[tuple[str, int]]:
        """The reasons, the commonest first."""
        return self.reasons.most_common()

    def as_stored(self) -> dict[str, object]:
        return {
            "at": self.at,
            "fits": self.fits,
            "same": self.same,
            "absent": self.absent,
            "reasons": dict(self.reasons),
            "samples": self.samples,
        }

    def add(self, place: int, found: Changed | Same | Misfit) -> None:
        match found:
            case Changed():
                self.fits += 1
                if len(self.samples) < SAMPLES:
                    self.samples.append(place)
            case Same():
                self.same += 1
            case Misfit(why):
                known = why in self.reasons or len(self.reasons) < MOST_REASONS
                self.reasons[why if known else OTHERWISE] += 1


def go_on(
    operation_id: UUID,
    *,
    seconds: float = SLICE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Trial | None:
    """Try the recipe on the next messages, for so long; None where there is nothing to try.

    Messages that are not on hold, or were changed since they were chosen, are counted as absent:
    the operation will skip them.
    """
    operation = Operation.objects.filter(pk=operation_id, state="PLANNED").first()
    if operation is None or not operation.recipe:
        return None
    trial, rules = Trial.of(operation), rules_now()
    recipe, until = compile_recipe(operation.recipe), clock() + seconds
    while trial.at < operation.total and clock() < until:
        _step(operation, trial, recipe, rules)
    # A recipe that was changed meanwhile has a dry run of its own.
    same = Operation.objects.filter(pk=operation_id, recipe=operation.recipe)
    same.update(trial=trial.as_stored())
    return trial


def _step(operation: Operation, trial: Trial, recipe: Recipe, rules: Rules) -> None:
    rows = OperationItem.objects.filter(
        operation=operation, place__gte=trial.at, place__lt=trial.at + STEP_ROWS
    )
    items = {item.error_id: item for item in rows.order_by("place")}
    found = store.contents(list(items), state=ErrorState.HOLD)
    for id_, item in items.items():
        content = found.get(id_)
        if content is None or content.version != item.version:
            trial.absent += 1
            continue
        trial.add(item.place, use(recipe, subject_of(content), rules))
    trial.at = min(trial.at + STEP_ROWS, operation.total)
