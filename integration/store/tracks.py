"""Tracking rows as the text that COPY reads: one line for each message that has ended."""

from collections.abc import Sequence
from typing import Final

from integration.store.rows import plain

COPY: Final = (
    'COPY integration_messagetrack (queue_id, partition, "offset", arrival_batch, message_id, '
    "interface, ended) FROM STDIN"
)
TABS_PER_LINE: Final = 6

Track = tuple[int, str, str, str]


def lines(place: tuple[int, int, int], tracks: Sequence[Track]) -> bytes:
    """COPY's text for `tracks` (offset, message id, interface, ended), none of them missing.

    `place` is (queue id, partition, arrival batch), the same for all.
    """
    queue, partition, arrival = place
    head, middle = f"{queue}\t{partition}\t", f"\t{arrival}\t"
    text = "\n".join([f"{head}{t[0]}{middle}{t[1]}\t{t[2]}\t{t[3]}" for t in tracks])
    if not _is_plain(text, len(tracks)):
        text = "\n".join(
            f"{head}{t[0]}{middle}{_escaped(t[1])}\t{_escaped(t[2])}\t{t[3]}" for t in tracks
        )
    # A lone surrogate in a header's text must not cost the batch.
    return (text + "\n").encode("utf-8", "replace")


def _is_plain(text: str, count: int) -> bool:
    """Whether COPY's text format needs no escaping; one pass over the batch at C speed."""
    return (
        text.count("\t") == TABS_PER_LINE * count
        and text.count("\n") == count - 1
        and "\\" not in text
        and "\r" not in text
        and "\x00" not in text
    )


def _escaped(text: str) -> str:
    escaped = plain(text, 1_000).replace("\\", "\\\\").replace("\t", "\\t")
    return escaped.replace("\n", "\\n").replace("\r", "\\r")
