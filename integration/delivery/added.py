"""Partitions that the topic got since: when a queue whose keys keep their order begins them.

The keys in them lay in others before, and producers notice only after minutes that there are more.
"""

from collections.abc import Callable, Mapping
from datetime import UTC
from enum import StrEnum
from typing import Protocol

from integration.delivery.batch_result import RUNNING, StateChange
from integration.delivery.owned import Owned
from integration.errors import IntegrationError
from integration.policy.states import PartitionState
from integration.values import ProducersKnow, TopicFacts

Ends = Callable[[], Mapping[int, int] | None]


class Addition(StrEnum):
    """What became of the partitions that a topic got since."""

    DONE = "done"
    # A living owner still works for what is left of one that the topic has had before.
    LATER = "later"
    # Keys keep their order, and have moved among the partitions that were there.
    KEYS_MOVED = "keys moved"


class AddedPartitions(Protocol):
    """What the database knows of them; part of ports.Repository."""

    def add_partitions(self, facts: TopicFacts) -> Addition:
        """Note partitions that the topic got since: they start at the beginning, free to take.

        All of them or, unless it is DONE, none; of a queue that was deleted none either. Where
        failures are left of one that the topic has had before, the owner of the lowest partition,
        who has tried them so far, is fenced.
        """

    def producers_know(self, owned: Owned) -> ProducersKnow | None:
        """Return from when on all producers know of an added partition, by the database's clock.

        None once `note_ends` has noted where the others ended after that, and where no key keeps
        its order any more.
        """

    def note_ends(self, owned: Owned, ends: Mapping[int, int]) -> bool:
        """Let an added partition begin after these ends of the others, read once producers knew.

        False when fenced, or when it is not yet that time. A partition that it waits for no more,
        since its topic is another one, is left out.
        """

    def has_begun(self, owned: Owned, ends: Mapping[int, int]) -> bool:
        """Return whether the others have reached where an added partition may begin; noted then.

        Or where their logs end now, as far as `ends` tells. Never before `note_ends`, unless no key
        keeps its order any more.
        """


def look(repository: AddedPartitions, ends: Ends, owned: Owned) -> StateChange | None:
    """Return the state that an added partition gets now, RUNNING once it is begun; None: none.

    The others' ends are noted once, when all producers know of it: no message of its keys is
    written to them any more. After that a log may still lose what it had up to there.
    """
    know = repository.producers_know(owned)
    found = _found(ends) if know is None or know.is_now else {}
    is_noted = know is not None and bool(found) and repository.note_ends(owned, found)
    if (know is None or is_noted) and repository.has_begun(owned, found):
        return RUNNING
    if owned.state_code == "KEYS_MOVED" and not is_noted:
        return None
    return _waiting(owned, None if is_noted else know)


def _found(ends: Ends) -> Mapping[int, int]:
    try:
        return ends() or {}
    except IntegrationError:
        # It waits on; what is wrong with the broker the next look tells, of all partitions.
        return {}


def _waiting(owned: Owned, know: ProducersKnow | None) -> StateChange:
    text = f"Partition {owned.partition} is read once the others are read up to where they "
    if know is None:
        text += "ended when all producers knew of it."
    else:
        at = know.at.astimezone(UTC)
        text += (
            f"end at {at:%H:%M:%S} UTC on {at:%d %B %Y}: until then producers may not know of it, "
            "and write its keys to the others."
        )
    return StateChange(state=PartitionState.WAITING, code="KEYS_MOVED", text=text)
