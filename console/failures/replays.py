"""The way from a failure to a replay: the form filled in with the offsets around its message."""

from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from integration.models import MessageError, Queue
from integration.selectors.failures.payloads import row_of

AROUND: Final = 10


def replay_around(error: MessageError) -> str:
    """The address of the form; empty for what no replay reads: it lies in no topic of ours.

    It names the message and ten offsets on either side, within its partition.
    """
    queue = error.queue
    is_read = queue.direction == Queue.Direction.INBOUND and not queue.is_error_queue
    if queue.provider.is_jms or not is_read or row_of(error) is not None:
        return ""
    begin, end = max(0, error.offset - AROUND), error.offset + AROUND + 1
    said = {
        "queue": queue.name,
        "into": "queue",
        "begin": f"{error.partition}:{begin}",
        "end": f"{error.partition}:{end}",
    }
    return f"{reverse('bulk-new', args=['replay'])}?{urlencode(said)}"
