"""What stands in a partition's state, without what is masked of the message it stopped at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from integration.models import Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.masking.covers import UNCOVERED, Cover, covers_of, unknown_cover
from integration.selectors.masking.rules import Masks, masks
from integration.values import TroubleKind

# Outages that the engine words itself; any other may be a handler's, which quotes what it likes.
_OWN_OUTAGES: Final = frozenset(
    {
        *(f"KAFKA_{kind}" for kind in TroubleKind),
        *("DATABASE_SHUTDOWN", "DATABASE_FULL", "DATABASE_READ_ONLY", "DATABASE_LOST"),
        *("REGISTRY_AWAY", "REGISTRY_REFUSED", "REGISTRY_CERTIFICATE"),
        *("ENDPOINT_DOWN", "ENDPOINT_PAUSED", "PREPARE_REFUSED", "NOT_PUBLISHED"),
    }
)
_OWN_OF_JMS: Final = "JMS_"
_QUOTES_A_CAUSE: Final = "SAME_FAILURE_IN_A_ROW"


class StateText(NamedTuple):
    """The text of a partition's state; `error` is the failure that it was written for, if any."""

    queue: int
    state: str
    code: str
    text: str
    error: UUID | None

    @property
    def is_of_a_message(self) -> bool:
        """Return whether it may quote a message of which there is no failure."""
        if self.error is not None or not self.text:
            return False
        if self.state == PartitionState.OUTAGE:
            return self.code not in _OWN_OUTAGES and not self.code.startswith(_OWN_OF_JMS)
        return self.code == _QUOTES_A_CAUSE


def cover_places(places: Iterable[QueuePartition]) -> None:
    """Hide what is masked in partitions that are only shown, and never saved.

    No query is made if `has_rules` of the partitions says there are none.
    """
    shown = [p for p in places if p.state_text and getattr(p, "has_rules", True)]
    told = [
        StateText(p.queue_id, p.state, p.state_code, p.state_text, p.state_error) for p in shown
    ]
    for place, text in zip(shown, covered(told), strict=True):
        place.state_text = text


def covered(told: Sequence[StateText]) -> list[str]:
    """The texts without what is masked; of a message without a failure nothing else is known.

    One query for the rules, if any may quote a message, and one each for failures and queues.
    """
    if not any(one.error is not None or one.is_of_a_message for one in told):
        return [one.text for one in told]
    rules = masks()
    found = covers_of({one.error for one in told if one.error is not None}, rules)
    of_queues = _of_queues({one.queue for one in told if one.is_of_a_message}, rules)
    return [_cover(one, found, of_queues).text(one.text) for one in told]


def _cover(one: StateText, found: Mapping[UUID, Cover], of_queues: Mapping[int, Cover]) -> Cover:
    if one.error is not None:
        return found.get(one.error, UNCOVERED)
    return of_queues.get(one.queue, UNCOVERED) if one.is_of_a_message else UNCOVERED


def _of_queues(queues: set[int], rules: Masks) -> dict[int, Cover]:
    """What hides every text about a message of these queues, where a rule may be for it."""
    if not queues or not rules.rules:
        return {}
    systems = Queue.objects.filter(pk__in=queues).values_list("pk", "system")
    return {pk: unknown_cover(rules.of(pk, system, ())) for pk, system in systems}
