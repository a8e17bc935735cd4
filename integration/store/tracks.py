"""Tracking rows as the text that COPY reads: one line for each message that has ended."""

from collections.abc import Sequence
from typing import Final

from integration.delivery.tracing import Trace, Track
from integration.store.rows import plain

_COLUMNS: Final = (
    'queue_id, partition, "offset", arrival_batch, message_id, interface, ended, key, kafka_ms'
)
COPY: Final = f"COPY integration_messagetrack ({_COLUMNS}) FROM STDIN"
# What is not there is written as one character that no id holds; \N would need a look at each.
NOTHING: Final = "\x01"
COPY_TRACED: Final = (
    f"COPY integration_messagetrack ({_COLUMNS}, external_id, search_a, search_b, caused_by, "
    f"payload) FROM STDIN WITH (NULL '{NOTHING}')"
)
TABS_PER_LINE: Final = 8
TABS_PER_TRACED_LINE: Final = 13
LONGEST: Final = 1_000

Place = tuple[int, int, int]


def untraced(tracks: Sequence[Track]) -> Sequence[Track]:
    """Those with nothing but their own ids; the sequence itself where that is all of them."""
    found = [track for track in tracks if track[6] is None]
    return tracks if len(found) == len(tracks) else found


def traced(tracks: Sequence[Track]) -> list[tuple[Track, Trace]]:
    return [(track, trace) for track in tracks if (trace := track[6]) is not None]


def lines(place: Place, tracks: Sequence[Track]) -> bytes:
    """COPY's text for tracks without a trace, none of them missing.

    `place` is (queue id, partition, arrival batch), the same for all.
    """
    queue, partition, arrival = place
    head, middle = f"{queue}\t{partition}\t", f"\t{arrival}\t"
    text = "\n".join(
        [
            f"{head}{t[0]}{middle}{t[1]}\t{t[2]}\t{t[3]}\t"
            f"{t[4].decode('utf-8', 'replace') if t[4] else ''}\t{t[5] or 0}"
            for t in tracks
        ]
    )
    if not _is_plain(text, TABS_PER_LINE * len(tracks), len(tracks)):
        text = "\n".join("\t".join(_told(place, track)) for track in tracks)
    # A lone surrogate in a header's text must not cost the batch.
    return (text + "\n").encode("utf-8", "replace")


def traced_lines(place: Place, tracks: Sequence[tuple[Track, Trace]]) -> bytes:
    """The same for COPY_TRACED."""
    queue, partition, arrival = place
    head, middle = f"{queue}\t{partition}\t", f"\t{arrival}\t"
    text = "\n".join(
        [
            f"{head}{t[0]}{middle}{t[1]}\t{t[2]}\t{t[3]}\t"
            f"{t[4].decode('utf-8', 'replace') if t[4] else ''}\t{t[5] or 0}\t"
            f"{NOTHING if w[0] is None else w[0]}\t{NOTHING if w[1] is None else w[1]}\t"
            f"{NOTHING if w[2] is None else w[2]}\t{NOTHING if w[3] is None else w[3]}\t"
            f"{NOTHING if w[4] is None else _bytes(w[4])}"
            for t, w in tracks
        ]
    )
    payloads = sum(w[4] is not None for _, w in tracks)
    nothings = sum(w.count(None) for _, w in tracks)
    if text.count(NOTHING) != nothings or not _is_plain(
        text, TABS_PER_TRACED_LINE * len(tracks), len(tracks), backslashes=2 * payloads
    ):
        text = "\n".join("\t".join(_told_traced(place, *pair)) for pair in tracks)
    return (text + "\n").encode("utf-8", "replace")


def _bytes(value: bytes) -> str:
    """As COPY reads bytea; its backslash is written as two."""
    return "\\\\x" + value.hex()


def _is_plain(text: str, tabs: int, count: int, *, backslashes: int = 0) -> bool:
    """Whether COPY's text format needs no escaping; one pass over the batch at C speed."""
    return (
        text.count("\t") == tabs
        and text.count("\n") == count - 1
        and text.count("\\") == backslashes
        and "\r" not in text
        and "\x00" not in text
    )


def _told(place: Place, track: Track) -> list[str]:
    queue, partition, arrival = place
    key = track[4].decode("utf-8", "replace") if track[4] else ""
    return [
        *(str(queue), str(partition), str(track[0]), str(arrival)),
        *(_escaped(track[1]), _escaped(track[2]), track[3], _escaped(key), str(track[5] or 0)),
    ]


def _told_traced(place: Place, track: Track, trace: Trace) -> list[str]:
    ids = (NOTHING if one is None else _escaped(one) for one in trace[:4])
    return [*_told(place, track), *ids, NOTHING if trace[4] is None else _bytes(trace[4])]


def _escaped(text: str) -> str:
    escaped = plain(text, LONGEST).replace("\\", "\\\\").replace("\t", "\\t")
    return escaped.replace("\n", "\\n").replace("\r", "\\r").replace(NOTHING, "\ufffd")
