"""Sends chosen messages to another topic, share by share, each message under its own id.

At least once: a task that dies is tried again, and sends its share again. By the ids whoever reads
the topic drops repeats.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from integration.documents.refusals import plain_text
from spark_jobs.fencing import Outcome
from spark_jobs.replay.staging import Stage, Taken
from spark_jobs.staging import Session
from spark_jobs.topics.producing import Headers, open_sender

# The name is that of integration.envelope.fields.
ID_HEADER: Final = "sluice-message-id"


class Sending(NamedTuple):
    """Sends the chosen messages of one share."""

    settings: Mapping[str, str]
    topic: str

    def keep(self, _session: Session, _tables: Stage, lot: Sequence[Taken]) -> int:
        """A Take: every record is in Kafka when it returns. Raises JobError NOT_DELIVERED."""
        chosen = [message for _, message in lot if message is not None]
        if not chosen:
            return 0
        sender = open_sender(self.settings)
        for message in chosen:
            record = message.record
            headers: Headers = list(record.headers)
            if not message.own_id:
                # It was named after its place, and would be another message in another one.
                headers.append((ID_HEADER, plain_text(message.message_id).encode()))
            sender.send(self.topic, record.key, record.value, headers)
        sender.finish()
        return 0


def sent(session: Session, tables: Stage) -> Outcome:
    """Sum up what all shares came to."""
    _, share = tables.staged(session)
    left = share.read - share.chosen
    counts = {"read": share.read, "sent": share.chosen, "rejected": 0, "skipped": left}
    return counts, {"left_out": {"not_chosen": left} if left else {}}
