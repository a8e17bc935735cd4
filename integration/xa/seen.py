"""A log's topic as it was once seen: one that was made anew looks as if all branches were over.

Noted in the factory's row when branches are written for the first time. From then on a topic that
is another one, or that has lost records, is not read until a person has accepted it. A compacted
topic keeps its first offset: where that has moved on, records were deleted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg

from integration.store.sessions import Session, raw_connection
from integration.xa.errors import XaLogReplacedError, XaUnavailableError

_STORED: Final = "SELECT xa_log_seen FROM integration_connectionfactory WHERE id = %s"
_NOTE: Final = """
UPDATE integration_connectionfactory SET xa_log_seen = %s
WHERE id = %s AND (%s OR NOT starts_with(xa_log_seen, %s))"""
# Noted in the place of an id: the topic's end lay before what had been read.
_SHORTENED: Final = "shortened"


@dataclass(frozen=True, slots=True)
class Seen:
    """A topic's id and its first offset."""

    uuid: str
    low: int

    def reason(self, found: "Seen") -> str:
        """What has become of it, if it is found like this; nothing if all is there."""
        if self.uuid == _SHORTENED:
            return "it ended before what had been read from it"
        if self.uuid != found.uuid:
            return "it was deleted and created again"
        return "records were deleted from it" if found.low > self.low else ""


class SeenLog:
    """What is noted of the topic of a factory's log."""

    def __init__(self, factory_id: int, topic: str) -> None:
        self.topic = topic
        self._factory_id = factory_id
        self._known: Seen | None = None

    def is_known(self, found: Seen) -> bool:
        """Whether the last `check` is true of what is found now."""
        return self._known is not None and not self._known.reason(found)

    def check(self, found: Seen) -> None:
        """Compare with what is noted; where nothing is, note it.

        Raises XaLogReplacedError, XaUnavailableError.
        """
        self._known = None
        with self._session() as session:
            noted = self._noted(session)
            if noted is None:
                self._note(session, found)
                noted = self._noted(session)
        reason = noted.reason(found) if noted is not None else ""
        if reason:
            raise XaLogReplacedError(self.topic, reason)
        self._known = noted

    def tell_shortened(self) -> None:
        """Note that records are lost. Raises XaLogReplacedError, XaUnavailableError."""
        self._known = None
        lost = Seen(_SHORTENED, 0)
        with self._session() as session:
            self._note(session, lost)
        raise XaLogReplacedError(self.topic, lost.reason(lost))

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """One of its own: the application's transaction may last, or be rolled back."""
        try:
            with raw_connection("sluice xa log") as session:
                yield session
        except psycopg.Error as problem:
            raise XaUnavailableError(self.topic, str(problem).strip()) from problem

    def _noted(self, session: Session) -> Seen | None:
        """What is noted of this topic; None where nothing is, or something about another one."""
        row = session.execute(_STORED, [self._factory_id]).fetchone()
        name, _, rest = str(row[0] if row else "").partition(" ")
        uuid, _, low = rest.partition(" ")
        return Seen(uuid, int(low)) if name == self.topic else None

    def _note(self, session: Session, seen: Seen) -> None:
        """Unless somebody has noted something of this topic meanwhile, or it is worse news."""
        text = f"{self.topic} {seen.uuid} {seen.low}"
        is_news = seen.uuid == _SHORTENED
        session.execute(_NOTE, [text, self._factory_id, is_news, f"{self.topic} "])
