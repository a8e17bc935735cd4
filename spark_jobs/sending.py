"""Sends what a run has staged to a queue: each part by one task, at least once.

Nothing goes out before every row was read. A part is written down as sent when Kafka has confirmed
all of it: whoever comes again passes over it, and a part that was sent and not written down is
sent again, under the same message ids.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import psycopg

from spark_jobs.errors import Stopped, lost
from spark_jobs.fencing import Owned, note, stay_ours
from spark_jobs.staging import Session, Stage
from spark_jobs.topics.producing import open_sender
from spark_jobs.topics.target import Target
from spark_jobs.work import Part, Work

STAGES: Final = ("stage", "send")
# A fact of a run from when it begins to send until it is done. The cleanup leaves the
# tables of such a run: nothing else knows what was sent.
SENDING_BEGUN: Final = "sending_begun"
_KNOWN: Final = "SELECT sent FROM {ranges} WHERE number = %s"
_SO_FAR: Final = "SELECT count(sent), coalesce(sum(sent), 0)::bigint FROM {ranges}"
_SENT: Final = "UPDATE {ranges} SET sent = %s WHERE number = %s"
Records = Callable[[Session], Iterator[tuple[bytes | None, bytes]]]
"""Reads the keys and values of a part's records from the stage."""


class Sending(NamedTuple):
    """The needs of a task: the database and Kafka, whose run it is, and the queue that takes it."""

    database: str
    kafka: Mapping[str, str]
    owned: Owned
    target: Target

    @property
    def packet_bytes(self) -> int:
        """What the topic takes at once, or the provider's own, smaller size."""
        most = self.target.packet_bytes
        return min(most, int(self.kafka.get("batch.size", most)))


def claim_range(
    session: Session, tables: Stage, owned: Owned, number: int
) -> tuple[int | None] | None:
    """Hold a range until the transaction ends: what is written of it, or None if nothing is.

    The look at the table comes first: from then on nobody replaces it by a new one.
    Raises JobError RUN_TAKEN.
    """
    tables.hold(session, number)
    try:
        row = session.execute(tables.sql(_KNOWN), [number]).fetchone()
    except psycopg.errors.UndefinedTable:
        raise lost() from None
    stay_ours(session, owned)
    return row


def send_range(what: Sending, tables: Stage, number: int, records: Records) -> None:
    """Send a range, unless it was: all of it is in Kafka when this returns.

    Raises JobError: NOT_DELIVERED, KAFKA_UNUSABLE, RUN_TAKEN.
    """
    with psycopg.connect(what.database, application_name=tables.NAME) as session:
        sums = claim_range(session, tables, what.owned, number)
        if sums is None:
            raise lost()
        if sums[0] is not None:
            return
        sender = open_sender({**what.kafka, "batch.size": what.packet_bytes})
        for key, value in records(session):
            sender.send(what.target.topic, key, value)
        session.execute(tables.sql(_SENT), [sender.finish(), number])


def begin(work: Work) -> None:
    """Note that from now on some of the run is out. Raises JobError RUN_TAKEN."""
    note(work.database, work.owned, {SENDING_BEGUN: True})


def send_all(work: Work, tables: Stage, parts: Sequence[Part], act: Callable[[Part], None]) -> None:
    """Send every range. What was staged stays when somebody cancels it: some of it is out."""
    begin(work)
    try:
        work.each("send", parts, act, lambda: _so_far(work, tables), stages=STAGES)
    except Stopped:
        say_sent(work, tables)
        raise


def say_sent(work: Work, tables: Stage) -> None:
    """Say in the log of a cancelled run how much of it is out."""
    _, sent = _so_far(work, tables)
    work.tell.say(f"Cancelled when {sent:,} messages were out; let again, it sends the others.")


def _so_far(work: Work, tables: Stage) -> tuple[int, int]:
    return work.database.execute(tables.sql(_SO_FAR)).fetchone() or (0, 0)
