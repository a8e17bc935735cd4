"""The courier: sends what is due in threads of its own, one for each recipient."""

import logging
import threading
from typing import Final

from django.db import Error, connections

from crontasks.notices import sending

# More recipients wait for the next round.
MOST_THREADS: Final = 8
logger = logging.getLogger(__name__)


class Courier:
    """Who wakes it never waits: neither for a mail server nor for a webhook that never answers."""

    def __init__(self) -> None:
        self._busy: set[int | None] = set()
        self._lock = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Return whether anything is being sent."""
        with self._lock:
            return bool(self._busy)

    def wake(self) -> None:
        """Begin to send what is due. Raises the database's errors."""
        for recipient in sending.due_recipients():
            with self._lock:
                if recipient in self._busy or len(self._busy) >= MOST_THREADS:
                    continue
                self._busy.add(recipient)
            thread = threading.Thread(
                target=self._send, args=(recipient,), name="sluice-notices", daemon=True
            )
            thread.start()

    def _send(self, recipient: int | None) -> None:
        try:
            sending.send_to(recipient)
        except Error as problem:
            logger.warning("notices wait for the database", extra={"error": str(problem)})
        except Exception:
            # The thread's outermost call: the next round tries again.
            logger.exception("notices could not be sent")
        finally:
            connections.close_all()
            with self._lock:
                self._busy.discard(recipient)
