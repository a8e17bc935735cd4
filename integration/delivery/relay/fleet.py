"""All relays of one process: a thread for every shard that nobody else relays."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from integration.delivery.relay.rest import rest

log = logging.getLogger(__name__)

# The times until new providers are looked for, and until an ended relay is tried again.
LOOK_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 3.0

Shard = tuple[int, int]


class _Hand:
    """The thread of one shard, and how its last relay ended."""

    def __init__(self, shard: Shard, relay: Callable[[Shard], bool]) -> None:
        self._shard = shard
        self._relay = relay
        self._thread: threading.Thread | None = None
        self._is_held_elsewhere = False
        self._ended_at = float("-inf")

    def is_at_work(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def is_needless(self) -> bool:
        return self._is_held_elsewhere and not self.is_at_work()

    def start_if_due(self) -> None:
        if self.is_at_work() or time.monotonic() - self._ended_at < AGAIN_SECONDS:
            return
        self._is_held_elsewhere = False
        name = f"relay {self._shard[0]}/{self._shard[1]}"
        self._thread = threading.Thread(target=self._serve, name=name)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._is_held_elsewhere = self._relay(self._shard)
        except Exception:
            # The outermost loop of this thread: the others go on, this one is tried again.
            log.exception("The relay of provider %s broke", self._shard[0])
        finally:
            self._ended_at = time.monotonic()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()


def relay_each(
    shards: Callable[[], Iterable[Shard]],
    relay: Callable[[Shard], bool],
    stop: Callable[[], bool],
) -> None:
    """Run `relay` for every shard until `stop()`, each in a thread of its own.

    `relay` returns whether another process holds the shard; when that is so for all of them,
    this process is not needed and comes home. A relay that ends otherwise is started again.
    Raises what `shards` raises, once nothing is at work: no relay outlives its task.
    """
    hands: dict[Shard, _Hand] = {}
    while not stop():
        try:
            keys = list(shards())
        except Exception as e:
            # Each relay has sessions of its own; where the database is away, it ends with them.
            if _is_idle(hands):
                raise
            log.warning("Which shards are to be relayed cannot be told now: %s", str(e).strip())
            rest(AGAIN_SECONDS, stop)
            continue
        for shard in keys:
            hands.setdefault(shard, _Hand(shard, relay)).start_if_due()
        rest(LOOK_SECONDS, stop)
        # What is at work may end before the next look finds its shard again: after a restore that
        # is noticed there are none for a while.
        if _is_idle(hands) and all(hands[shard].is_needless() for shard in keys):
            break
    for hand in hands.values():
        hand.join()


def _is_idle(hands: dict[Shard, _Hand]) -> bool:
    return not any(hand.is_at_work() for hand in hands.values())
