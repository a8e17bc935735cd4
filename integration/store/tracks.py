"""Tracking rows as the text that COPY reads: one line for each message that has ended."""

from collections.abc import Iterator, Sequence
from typing import Final

from integration.delivery.tracing import Ids, Trace, Track
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
    keys = [track[4].decode("utf-8", "replace") if track[4] else "" for track in tracks]
    if not _are_bare(tracks) or not _is_bare("".join(keys)):
        return "\n".join("\t".join(_told(place, track)) for track in tracks)
    return "\n".join(
        [
            f"{head}{offset}{middle}{id_}\t{interface}\t{ended}\t{key}\t{ms or 0}"
            for (offset, id_, interface, ended, _, ms, _), key in zip(tracks, keys, strict=True)
        ]
    )


def _traced_lines(place: Place, tracks: Sequence[Traced]) -> str:
    queue, partition, arrival = place
    head, middle = f"{NOTHING}\t{queue}\t{partition}\t", f"\t{arrival}\t"
    text = "\n".join(
        [
            f"{head}{offset}{middle}{id_}\t{interface}\t{ended}\t"
            f"{trace[5] or columns(key, ms, trace[:5])}"
            for (offset, id_, interface, ended, key, ms, _), trace in tracks
        ]
    )
    # Columns that need signs have no text, and so no tabs.
    if text.count("\t") == TABS_PER_TRACED_LINE * len(tracks) and _are_bare(
        [track for track, _ in tracks]
    ):
        return text
    return "\n".join("\t".join(_told_traced(place, *pair)) for pair in tracks)


def columns(key: bytes | None, ms: int | None, ids: Ids) -> str:
    """The columns that a traced line ends with, "" where something needs a sign before it."""
    own, first, second, cause, payload = ids
    text = key.decode("utf-8", "replace") if key else ""
    if not _is_bare(f"{text}{own or ''}{first or ''}{second or ''}{cause or ''}"):
        return ""
    return (
        f"{text}\t{ms or 0}\t{own or NOTHING}\t{first or NOTHING}\t{second or NOTHING}\t"
        f"{cause or NOTHING}\t{NOTHING if payload is None else _bytes(payload)}"
    )


def _bytes(value: bytes) -> str:
    """As COPY reads bytea; its backslash is written as two."""
    return "\\\\x" + value.hex()


def _is_bare(text: str) -> bool:
    """Whether COPY's text format needs no escaping in it, and it is not NOTHING: at C speed."""
    return text.isprintable() and "\\" not in text


def _are_bare(tracks: Sequence[Track]) -> bool:
    """The same of the ids and the interfaces, of which a batch has few."""
    ids, interfaces = [track[1] for track in tracks], {track[2] for track in tracks}
    return _is_bare("".join(ids)) and _is_bare("".join(interfaces))


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
