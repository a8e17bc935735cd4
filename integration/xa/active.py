"""A branch that this process has begun, as long as it is under way here."""

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from integration.kafka.slots import Slot
from integration.xa.branch import Branch
from integration.xa.outgoing import Outgoing


@dataclass(slots=True)
class Active:
    """A branch that this process has begun: with its messages, later with its slot."""

    started: float = field(default_factory=time.monotonic)
    messages: list[Outgoing] = field(default_factory=list)
    branch: Branch | None = None
    slot: Slot | None = None
    is_ended: bool = False
    held: ExitStack = field(default_factory=ExitStack)
    # Of the thread that acts on it, until it is known what has become of it.
    turn: threading.RLock = field(default_factory=threading.RLock)

    def let_go(self, *, is_whole: bool = True) -> None:
        """Give the slot back; one with which something went wrong is not used again."""
        if not is_whole and self.slot is not None:
            self.slot.close()
        self.held.close()
