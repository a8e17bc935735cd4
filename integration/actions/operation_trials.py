"""The dry run of an edit: each message is changed in memory, and nothing of it is stored."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final
from uuid import UUID

from integration.models import Operation, OperationItem
from integration.policy.states import ErrorState, OperationState
from integration.recipe_rules import away_in, rules_now, schemas_of, subject_of
from integration.recipe_use import Changed, Rules, Same, use
from integration.recipes import Misfit, Recipe, compile_recipe
from integration.selectors.masking.rules import masked_queues
from integration.store import operations as store

# A request of the dry run takes about so long, and reads so many messages at once at most.
TRIAL_SECONDS: Final = 4.0
TRIAL_ROWS: Final = 250
SAMPLES: Final = 5
# Reasons beyond these are counted together: a schema may name something else in each message.
MOST_REASONS: Final = 40
OTHERWISE: Final = "Other reasons."


@dataclass(slots=True)
class Trial:
    """The state of a dry run and what it met; `samples` are the first items that change.

    `absent` are not on hold, or were changed since they were chosen: the operation skips them.
    `lacks` says which registry did not answer: the next messages are tried once it does.
    """

    at: int = 0
    fits: int = 0
    same: int = 0
    absent: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    samples: list[int] = field(default_factory=list)
    lacks: str = ""

    @property
    def invalid(self) -> int:
        return sum(self.reasons.values())

    @property
    def ranked(self) -> list[tuple[str, int]]:
        """The reasons, the commonest first."""
        return sorted(self.reasons.items(), key=lambda reason: -reason[1])

    def add(self, place: int, made: Changed | Same | Misfit) -> None:
        match made:
            case Changed():
                self.fits += 1
                if len(self.samples) < SAMPLES:
                    self.samples.append(place)
            case Same():
                self.same += 1
            case Misfit(why):
                is_known = why in self.reasons or len(self.reasons) < MOST_REASONS
                reason = why if is_known else OTHERWISE
                self.reasons[reason] = self.reasons.get(reason, 0) + 1


def trial_of(operation: Operation) -> Trial:
    """The dry run as it is stored with the operation, or a new one."""
    return Trial(**(operation.trial or {}))


def go_on_trying(
    operation_id: UUID,
    *,
    seconds: float = TRIAL_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Trial | None:
    """Try the recipe on the next messages, for so long; None where there is nothing to try."""
    operation = Operation.objects.filter(pk=operation_id, state=OperationState.PLANNED).first()
    if operation is None or not operation.recipe:
        return None
    trial, rules = trial_of(operation), rules_now(masked_queues())
    recipe, until = compile_recipe(operation.recipe), clock() + seconds
    trial.lacks = ""
    while trial.at < operation.total and not trial.lacks and clock() < until:
        _try(operation, trial, recipe, rules)
    # A recipe that was changed meanwhile has a dry run of its own.
    same = Operation.objects.filter(pk=operation_id, recipe=operation.recipe)
    same.update(trial=_stored(trial))
    return trial


def _stored(trial: Trial) -> dict[str, object]:
    """Leave out what the release before does not know, as long as it says nothing."""
    return {name: value for name, value in asdict(trial).items() if name != "lacks" or value}


def _try(operation: Operation, trial: Trial, recipe: Recipe, rules: Rules) -> None:
    until = trial.at + store.at_once(operation.pk, trial.at, TRIAL_ROWS)
    rows = OperationItem.objects.filter(operation=operation, place__gte=trial.at, place__lt=until)
    items = list(rows.order_by("place"))
    contents = store.contents([item.error_id for item in items], state=ErrorState.HOLD)
    schemas = schemas_of((one.queue_id, one.record) for one in contents.values())
    if (away := away_in(schemas)) is not None:
        trial.lacks = f"{away.code}: {away.text}"
        return
    for item in items:
        content = contents.get(item.error_id)
        if content is None or content.version != item.version:
            trial.absent += 1
        else:
            trial.add(item.place, use(recipe, subject_of(content, schemas), rules))
    trial.at = min(until, operation.total)
