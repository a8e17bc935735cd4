"""The choice of a range's records that were asked for, and what they say of themselves."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from integration import envelope
from integration.delivery.tracked import order_texts
from integration.envelope.fields import FIELDS, addressed_by_headers
from integration.paths import compile_path, text_reader
from spark_jobs.replay.parameters import Filter, ReplayParameters
from spark_jobs.topics.cluster import Read
from spark_jobs.topics.reading import KIND, RETRY_MARKER, RETRY_MARKER_HEADER

Headers = Sequence[tuple[str, bytes | None]]
_LONGEST: Final = 1_000
_INTERFACE: Final = FIELDS.index("INTERFACE")
_MESSAGE_ID: Final = FIELDS.index("MEAMessageID")


class Record(NamedTuple):
    """A record of the range. Of one that does not fit by key or header only its place is known."""

    partition: int
    offset: int
    timestamp_ms: int
    fits: bool
    key: bytes | None
    value: bytes | None
    headers: Headers


class Chosen(NamedTuple):
    """A message that was asked for. `own_id` is empty where it does not name itself.

    `body` is its parsed payload, None for a deletion, a Flaw where it cannot be read; `text` is
    the payload as it came out of the envelope.
    """

    record: Record
    message_id: str
    own_id: str
    interface: str
    body: object
    text: str | bytes


class Chooser:
    """The filter of one run. `columns` and `records` are for records that Spark reads."""

    def __init__(self, parameters: ReplayParameters) -> None:
        self._wanted: Filter = parameters.chosen
        self._provider, self._topic = parameters.provider_name, parameters.topic
        self._generations = parameters.generations
        self._default = parameters.default_interface
        path, has_value, value = self._wanted.path.partition("=")
        self._text = text_reader(compile_path(path), _LONGEST) if path else None
        self._value = value if has_value else None
        self._unwraps = parameters.retry_wrapper
        self._order_texts = order_texts(parameters.order_path)

    def columns(self) -> list[str]:
        """Expressions for `Record`: what does not fit is not carried from Spark to Python."""
        fits = f"({KIND}) <> {RETRY_MARKER}{''.join(f' AND {sql}' for sql in self._conditions())}"
        return [
            "partition",
            "offset",
            "cast(unix_millis(timestamp) AS bigint) AS at_ms",
            f"coalesce({fits}, false) AS fits",
            *(f"CASE WHEN {fits} THEN {name} END AS {name}" for name in ("key", "value")),
            f"CASE WHEN {fits} THEN headers END AS headers",
        ]

    def records(self, rows: Iterator[Any]) -> Iterator[Record]:
        """Yield the records of Spark's rows with these columns."""
        for partition, offset, at_ms, fits, key, value, headers in rows:
            yield Record(
                partition,
                offset,
                at_ms,
                fits,
                None if key is None else bytes(key),
                None if value is None else bytes(value),
                [(name, None if data is None else bytes(data)) for name, data in headers or ()],
            )

    def fits(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Apply the columns' condition to a record that was read without Spark."""
        if value == b"" and any(name == RETRY_MARKER_HEADER for name, _ in headers):
            return False
        if self._wanted.key and key != self._wanted.key.encode():
            return False
        name, has_value, text = self._wanted.header.partition("=")
        return not name or any(
            known == name and (not has_value or data == text.encode()) for known, data in headers
        )

    def chosen(self, record: Record, value: bytes | None = None) -> Chosen | None:
        """The message, or None where it was not asked for.

        `value` stands for the record's own where a person has corrected that.
        """
        if not record.fits:
            return None
        message = self._read(record, record.value if value is None else value)
        service = self._wanted.interface
        if service and message.interface != service:
            return None
        if self._text is not None:
            is_flaw = isinstance(message.body, envelope.Flaw)
            text = None if is_flaw else self._text(message.body)
            if text is None or (self._value is not None and text != self._value):
                return None
        return message

    def seen(self, record: Read) -> Chosen | None:
        """The same of a record that was read without Spark."""
        fits = self.fits(record.key, record.value, record.headers)
        place = (record.partition, record.offset, record.timestamp_ms)
        return self.chosen(Record(*place, fits, record.key, record.value, record.headers))

    def order_value(self, message: Chosen) -> bytes | None:
        """What messages have in common that keep their order, as the engine reads it."""
        if self._order_texts is None:
            return message.record.key
        is_flaw = isinstance(message.body, envelope.Flaw)
        [text] = self._order_texts([None if is_flaw else message.body])
        return None if text is None else text.encode("utf-8", "replace")

    def choose(self, _session: object, lot: Sequence[Record]) -> list[tuple[Record, Chosen | None]]:
        """A Choose."""
        return [(record, self.chosen(record)) for record in lot]

    def _conditions(self) -> Iterator[str]:
        if self._wanted.key:
            yield f"key = {_binary(self._wanted.key)}"
        name, has_value, text = self._wanted.header.partition("=")
        if name:
            same = f" AND h.value = {_binary(text)}" if has_value else ""
            yield f"exists(headers, h -> h.key = decode({_binary(name)}, 'UTF-8'){same})"

    def _read(self, record: Record, value: bytes | None) -> Chosen:
        interface, own_id, body, text = _said(value, record.headers, unwraps=self._unwraps)
        return Chosen(
            record,
            own_id or self._fallback_id(record),
            own_id or "",
            interface or self._default,
            body,
            text,
        )

    def _fallback_id(self, record: Record) -> str:
        """The id of a message without one, as the queue's runs make it."""
        topic = envelope.topic_in_id(self._topic, self._generations.get(record.partition, 0))
        return f"{self._provider}~{topic}~{record.partition}~{record.offset}"


Said = tuple[str | None, str | None, object, str | bytes]


def _said(value: bytes | None, headers: Headers, *, unwraps: bool) -> Said:
    """Service, id, body and payload's text, as the engine reads them."""
    if value is None:
        fields = addressed_by_headers(headers)
        if isinstance(fields, envelope.Flaw):
            return None, None, fields, b""
        return fields[_INTERFACE], fields[_MESSAGE_ID], None, b""
    read = (envelope.read_unwrapped if unwraps else envelope.read)(value, headers)
    if isinstance(read, envelope.Flaw):
        fields = addressed_by_headers(headers)
        named = [None] * len(FIELDS) if isinstance(fields, envelope.Flaw) else fields
        interface = read.interface or named[_INTERFACE]
        return interface, read.message_id or named[_MESSAGE_ID], read, value
    return read.interface, read.message_id, read.body, read.payload


def _binary(text: str) -> str:
    """A literal that no text can break out of."""
    return f"X'{text.encode().hex()}'"
