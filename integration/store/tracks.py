"""Tracking rows: one alone as parameters, several as the text that COPY reads, a line for each.

Most of a line is put together while its message is read, before the time counts in which a batch
holds the database. What only its ending tells stands before that.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from integration.delivery.tracked import Columns, Messages, Track, Tracked
from integration.store.rows import plain

# Told first: the first line of a COPY says how many there are, in the others it is nothing.
_COLUMNS: Final = (
    'batch_rows, queue_id, arrival_batch, ended, partition, "offset", message_id, interface, key, '
    "kafka_ms, external_id, search_a, search_b, caused_by, payload, "
    "schema_id, trace_id"
)
# What is not there is written as one character that no id holds; \N would need a look at each.
NOTHING: Final = "\x01"
COPY: Final = f"COPY integration_messagetrack ({_COLUMNS}) FROM STDIN WITH (NULL '{NOTHING}')"
# One row, where `fenced` has one: COPY asks twice, and an answer takes as long as the writing.
INSERT_FENCED: Final = (
    f"INSERT INTO integration_messagetrack ({_COLUMNS}) "
    f"SELECT 1{', %s' * 13}, %s::bytea, %s::int, %s::uuid FROM fenced"
)
LONGEST: Final = 1_000
# A batch of the usual size in one piece: where most texts are there, they cost little to join.
LINES_AT_ONCE: Final = 500

Place = tuple[int, int, int]
"""(queue id, partition, arrival batch), the same for all rows of a COPY."""


def texts(messages: Messages, columns: Columns) -> Sequence[str]:
    """A Writer: what each line ends with, from the partition on.

    "" where something needs a sign before it.
    """
    ids, interface = messages.ids, messages.interface
    keys = [r.key.decode("utf-8", "replace") if r.key else "" for r in messages.records]
    lines = [
        f"{r.partition}\t{r.offset}\t{id_}\t{interface}\t{key}\t{r.timestamp_ms or 0}\t"
        f"{own or NOTHING}\t{first or NOTHING}\t{second or NOTHING}\t{cause or NOTHING}\t"
        f"{NOTHING if payload is None else _bytes(payload)}\t{schema or NOTHING}"
        f"\t{trace or NOTHING}"
        for r, id_, key, own, first, second, cause, payload, schema, trace in zip(
            messages.records, ids, keys, *columns, strict=True
        )
    ]
    words = columns[:4]
    if _is_bare("".join([interface, *ids, *keys, *("".join(filter(None, one)) for one in words)])):
        return lines
    each = zip(ids, keys, *([word or "" for word in one] for one in words), strict=True)
    return [
        line if _is_bare(interface + "".join(said)) else ""
        for line, said in zip(lines, each, strict=True)
    ]


def lines(place: Place, tracks: Sequence[Track]) -> Iterator[bytes]:
    """COPY's text for tracks, in pieces of whole lines."""
    for begin in range(0, len(tracks), LINES_AT_ONCE):
        text = _lines(place, tracks[begin : begin + LINES_AT_ONCE])
        numbered = text if begin else f"{len(tracks)}{text[len(NOTHING) :]}"
        # A lone surrogate in a header's text must not cost the batch.
        yield (numbered + "\n").encode("utf-8", "replace")


def values(place: Place, track: Track) -> list[Any]:
    """The parameters of INSERT_FENCED."""
    queue, partition, arrival = place
    offset, message_id, interface, ended, key, ms, tracked = track
    text = key.decode("utf-8", "replace") if key else ""
    ids, *rest = _told(tracked)
    texts = [plain(one, LONGEST) for one in (message_id, interface, text)]
    told = [None if one is None else plain(one, LONGEST) for one in ids]
    return [queue, arrival, ended, partition, offset, *texts, ms or 0, *told, *rest]


def _lines(place: Place, tracks: Sequence[Track]) -> str:
    queue, _, arrival = place
    head = f"{NOTHING}\t{queue}\t{arrival}\t"
    texts = [tracked.text if (tracked := track[6]) is not None else "" for track in tracks]
    endings = {track[3] for track in tracks}
    if len(endings) == 1 and all(texts):
        head += f"{endings.pop()}\t"
        return head + f"\n{head}".join(texts)
    return "\n".join(
        f"{head}{track[3]}\t{text or _whole(place, track)}"
        for track, text in zip(tracks, texts, strict=True)
    )


def _whole(place: Place, track: Track) -> str:
    """Return the end of a line, with a sign before all that needs one."""
    offset, message_id, interface, _, key, ms, tracked = track
    text = key.decode("utf-8", "replace") if key else ""
    ids, payload, schema, trace_id = _told(tracked)
    return "\t".join(
        [
            *(
                str(place[1]),
                str(offset),
                _escaped(message_id),
                _escaped(interface),
                _escaped(text),
            ),
            str(ms or 0),
            *(NOTHING if one is None else _escaped(one) for one in ids),
            NOTHING if payload is None else _bytes(payload),
            str(schema or NOTHING),
            trace_id or NOTHING,
        ]
    )


def _told(
    tracked: Tracked | None,
) -> tuple[Sequence[str | None], bytes | None, int | None, str | None]:
    """The ids, the payload, its schema and the trace."""
    if tracked is None:
        return (None,) * 4, None, None, None
    return tracked[:4], tracked.payload, tracked.schema, tracked.trace_id


def _bytes(value: bytes) -> str:
    """As COPY reads bytea; its backslash is written as two."""
    return "\\\\x" + value.hex()


def _is_bare(text: str) -> bool:
    """Return True where COPY's format escapes nothing in it, and it is not NOTHING: at C speed."""
    return text.isprintable() and "\\" not in text


def _escaped(text: str) -> str:
    escaped = plain(text, LONGEST).replace("\\", "\\\\").replace("\t", "\\t")
    return escaped.replace("\n", "\\n").replace("\r", "\\r").replace(NOTHING, "\ufffd")
