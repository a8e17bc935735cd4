"""Tracking rows as the text that COPY reads: one line for each message that has ended."""

from collections.abc import Iterator, Sequence
from typing import Final

from integration.delivery.tracing import Trace, Track
from integration.store.rows import plain

# Told first: the first line of a COPY says how many there are, in the others it is nothing.
_COLUMNS: Final = (
    'batch_rows, queue_id, partition, "offset", arrival_batch, message_id, interface, ended, key, '
    "kafka_ms"
)
# What is not there is written as one character that no id holds; \N would need a look at each.
NOTHING: Final = "\x01"
COPY: Final = f"COPY integration_messagetrack ({_COLUMNS}) FROM STDIN WITH (NULL '{NOTHING}')"
COPY_TRACED: Final = (
    f"COPY integration_messagetrack ({_COLUMNS}, external_id, search_a, search_b, caused_by, "
    f"payload) FROM STDIN WITH (NULL '{NOTHING}')"
)
TABS_PER_LINE: Final = 9
TABS_PER_TRACED_LINE: Final = 14
LONGEST: Final = 1_000
# The server reads these while the next are put together.
LINES_AT_ONCE: Final = 125

Place = tuple[int, int, int]
"""(queue id, partition, arrival batch), the same for all rows of a COPY."""
Traced = tuple[Track, Trace]


def untraced(tracks: Sequence[Track]) -> Sequence[Track]:
    """Those with nothing but their own ids; the sequence itself where that is all of them."""
    found = [track for track in tracks if track[6] is None]
    return tracks if len(found) == len(tracks) else found


def traced(tracks: Sequence[Track]) -> list[Traced]:
    return [(track, trace) for track in tracks if (trace := track[6]) is not None]


def lines(place: Place, tracks: Sequence[Track]) -> Iterator[bytes]:
    """COPY's text for tracks without a trace, in pieces of whole lines."""
    for begin in range(0, len(tracks), LINES_AT_ONCE):
        text = _lines(place, tracks[begin : begin + LINES_AT_ONCE])
        yield _piece(text, None if begin else len(tracks))


def traced_lines(place: Place, tracks: Sequence[Traced]) -> Iterator[bytes]:
    """The same for COPY_TRACED."""
    for begin in range(0, len(tracks), LINES_AT_ONCE):
        text = _traced_lines(place, tracks[begin : begin + LINES_AT_ONCE])
        yield _piece(text, None if begin else len(tracks))


def _piece(text: str, count: int | None) -> bytes:
    told = text if count is None else f"{count}{text[len(NOTHING) :]}"
    # A lone surrogate in a header's text must not cost the batch.
    return (told + "\n").encode("utf-8", "replace")


def _lines(place: Place, tracks: Sequence[Track]) -> str:
    queue, partition, arrival = place
    head, middle = f"{NOTHING}\t{queue}\t{partition}\t", f"\t{arrival}\t"
    text = "\n".join(
        [
            f"{head}{offset}{middle}{id_}\t{interface}\t{ended}\t"
            f"{key.decode('utf-8', 'replace') if key else ''}\t{ms or 0}"
            for offset, id_, interface, ended, key, ms, _ in tracks
        ]
    )
    if _is_plain(text, TABS_PER_LINE, len(tracks), nothings=len(tracks)):
        return text
    return "\n".join("\t".join(_told(place, track)) for track in tracks)


def _traced_lines(place: Place, tracks: Sequence[Traced]) -> str:
    queue, partition, arrival = place
    head, middle = f"{NOTHING}\t{queue}\t{partition}\t", f"\t{arrival}\t"
    text = "\n".join(
        [
            f"{head}{offset}{middle}{id_}\t{interface}\t{ended}\t"
            f"{key.decode('utf-8', 'replace') if key else ''}\t{ms or 0}\t{own or NOTHING}\t"
            f"{first or NOTHING}\t{second or NOTHING}\t{cause or NOTHING}\t"
            f"{NOTHING if payload is None else _bytes(payload)}"
            for (offset, id_, interface, ended, key, ms, _), (
                own, first, second, cause, payload,
            ) in tracks
        ]
    )  # fmt: skip
    nothings = len(tracks) + sum(trace.count(None) for _, trace in tracks)
    payloads = sum(trace[4] is not None for _, trace in tracks)
    if _is_plain(
        text, TABS_PER_TRACED_LINE, len(tracks), nothings=nothings, backslashes=2 * payloads
    ):
        return text
    return "\n".join("\t".join(_told_traced(place, *pair)) for pair in tracks)


def _bytes(value: bytes) -> str:
    """As COPY reads bytea; its backslash is written as two."""
    return "\\\\x" + value.hex()


def _is_plain(text: str, tabs: int, count: int, *, nothings: int, backslashes: int = 0) -> bool:
    """Whether COPY's text format needs no escaping; one pass over the lines at C speed."""
    return (
        text.count("\t") == tabs * count
        and text.count("\n") == count - 1
        and text.count(NOTHING) == nothings
        and text.count("\\") == backslashes
        and "\r" not in text
        and "\x00" not in text
    )


def _told(place: Place, track: Track) -> list[str]:
    queue, partition, arrival = place
    key = track[4].decode("utf-8", "replace") if track[4] else ""
    return [
        *(NOTHING, str(queue), str(partition), str(track[0]), str(arrival)),
        *(_escaped(track[1]), _escaped(track[2]), track[3], _escaped(key), str(track[5] or 0)),
    ]


def _told_traced(place: Place, track: Track, trace: Trace) -> list[str]:
    ids = (NOTHING if one is None else _escaped(one) for one in trace[:4])
    return [*_told(place, track), *ids, NOTHING if trace[4] is None else _bytes(trace[4])]


def _escaped(text: str) -> str:
    escaped = plain(text, LONGEST).replace("\\", "\\\\").replace("\t", "\\t")
    return escaped.replace("\n", "\\n").replace("\r", "\\r").replace(NOTHING, "\ufffd")
