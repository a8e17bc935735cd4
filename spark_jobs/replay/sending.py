"""Sends chosen messages to another topic, share by share, each message under its own id.

At least once: a task that dies is tried again, and sends its share again. By the ids whoever reads
the topic drops repeats.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg

from integration.documents.refusals import plain_text
from spark_jobs.replay.applying import Outcome
from spark_jobs.replay.staging import Stage, Taken
from spark_jobs.topics.producing import Headers, open_sender

# The name is that of integration.envelope.fields.
ID_HEADER: Final = "sluice-message-id"


class Sending:
    """Sends the chosen messages of one share; a Take."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        self._settings = settings
        self._topic = topic

    def keep(self, _session: psycopg.Connection[Any], _tables: Stage, lot: Sequence[Taken]) -> int:
        """Every record is in Kafka when it returns. Raises JobError NOT_DELIVERED."""
        chosen = [message for _, message in lot if message is not None]
        if not chosen:
            return 0
        sender = open_sender(self._settings)
        for message in chosen:
            record = message.record
            headers: Headers = list(record.headers)
            if not message.own_id:
                # It was named after its place, and would be another message in another one.
                headers.append((ID_HEADER, plain_text(message.message_id).encode()))
            sender.send(self._topic, record.key, record.value, headers)
        sender.finish()
        return 0


def sent(session: psycopg.Connection[Any], tables: Stage) -> Outcome:
    """What all shares came to."""
    _, share = tables.staged(session)
    left = share.read - share.chosen
    counts = {"read": share.read, "sent": share.chosen, "rejected": 0, "skipped": left}
    return counts, {"left_out": {"not_chosen": left} if left else {}}
