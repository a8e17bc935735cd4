"""Moves that a person may ask of a failed message: from which states, and to which one."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from integration.policy.states import ErrorState


@dataclass(frozen=True, slots=True)
class Move:
    """One verb: the states it may start from and the state it leads to."""

    action: str
    expected: frozenset[ErrorState]
    target: ErrorState


RELEASE: Final = Move("release", frozenset({ErrorState.HOLD}), ErrorState.READY)
HOLD: Final = Move(
    "hold",
    frozenset({ErrorState.RETRY, ErrorState.READY, ErrorState.PARKED}),
    ErrorState.HOLD,
)
# Of what the engine would try by itself, where a person moves the position past it: a crash
# suspect's marker, too, would be due again once its run is gone.
PASS: Final = Move(
    "hold",
    frozenset({ErrorState.RETRY, ErrorState.READY, ErrorState.PROCESSING}),
    ErrorState.HOLD,
)
DELETE: Final = Move(
    "delete",
    frozenset({ErrorState.HOLD, ErrorState.RETRY, ErrorState.READY, ErrorState.PARKED}),
    ErrorState.DELETED,
)
RESTORE: Final = Move("restore", frozenset({ErrorState.DELETED}), ErrorState.HOLD)
ARRIVED: Final = Move("arrived", frozenset({ErrorState.HOLD}), ErrorState.RESOLVED)
# Of a dead letter: it goes back to the topic it came from.
SEND_BACK: Final = Move("send back", frozenset({ErrorState.HOLD}), ErrorState.RESOLVED)
# Of one that was sent back too often, or cannot be: it is left to people.
GIVE_UP: Final = Move("give up", frozenset({ErrorState.HOLD}), ErrorState.HOLD)
# How the reason ends where it came back too often.
FAILED_AGAIN: Final = "has failed again."
# Of the head of a sequential queue: it stays on hold, and the queue goes on past it.
PARK: Final = Move("park", frozenset({ErrorState.HOLD}), ErrorState.HOLD)
EDIT: Final = Move("edit", frozenset({ErrorState.HOLD}), ErrorState.HOLD)
# The verbs that lead to another state, and with editing and sending back all that an operation can
# do.
CHANGES: Final[Mapping[str, Move]] = MappingProxyType(
    {move.action: move for move in (RELEASE, HOLD, DELETE, RESTORE)}
)
VERBS: Final[Mapping[str, Move]] = MappingProxyType(
    {**CHANGES, EDIT.action: EDIT, SEND_BACK.action: SEND_BACK}
)
# Of these the operation reads each message, and does not only write its row.
READS_CONTENT: Final = frozenset({EDIT.action, SEND_BACK.action})
