"""The values around reading and writing: limits, the document read, the message to write."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from integration.envelope.json_text import member_text

JSON: Final = "application/json"
XML: Final = "application/xml"

# The XML parser's own bound; one figure serves both formats.
DEEPEST: Final = 256
_LARGEST_PARTITION: Final = 2**31 - 1
_LARGEST_OFFSET: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits to how much of an untrusted message is looked at.

    `max_bytes` bounds the record and, separately, its decoded payload. `max_depth` counts
    nested objects, arrays or elements (1 to 256). `max_ratio` is decompressed size over
    compressed size; output up to `exempt_bytes` is free of it, because short repetitive
    documents honestly compress that well.
    """

    max_bytes: int = 10 * 2**20
    max_depth: int = 200
    max_ratio: int = 200
    exempt_bytes: int = 2**20

    def __post_init__(self) -> None:
        if not 1 <= self.max_depth <= DEEPEST:
            raise ValueError(f"max_depth is {self.max_depth}; it must lie between 1 and {DEEPEST}")
        if min(self.max_bytes, self.max_ratio, self.exempt_bytes) < 1:
            raise ValueError("max_bytes, max_ratio and exempt_bytes must be at least 1")


DEFAULT: Final = Limits()


class Enclosed(NamedTuple):
    """A payload that stands as a plain value inside its envelope; `record` holds both."""

    record: bytes

    def text(self) -> str:
        return member_text(self.record.decode().removeprefix("\ufeff"), "payload")


@dataclass(slots=True)
class Document:
    """The result of reading a record; treat it as frozen (freezing would cost a microsecond).

    `interface` is the service named by the envelope, else by a header, else None.
    `body` is the parsed payload: dict, list, str, int, Decimal or bool for JSON, an lxml
    element for XML. It stays out of the repr, because logs must not show payloads.
    """

    interface: str | None
    sender: str | None
    user: str | None
    destination: str | None
    message_id: str | None
    mimetype: str
    wrapped: bool
    body: object = field(repr=False)
    _source: bytes | str | Enclosed = field(repr=False)

    @property
    def payload(self) -> bytes | str:
        """The business payload's own text, out of envelope, Base64 and compression."""
        source = self._source
        return source.text() if isinstance(source, Enclosed) else source


class Bare(Document):
    """A JSON object with neither envelope nor headers: all there is to it is its body.

    What they cannot say stands on the class.
    """

    __slots__ = ()

    interface = None
    sender = None
    user = None
    destination = None
    message_id = None
    mimetype = JSON
    wrapped = False

    def __init__(self, body: object, source: bytes) -> None:
        self.body = body
        self._source = source


class FoundingId(NamedTuple):
    """The founding form of MEAMessageID: where the message stood, not who it is."""

    provider: str
    topic: str
    partition: int
    offset: int


def parse_founding_id(text: str) -> FoundingId | None:
    """Return the parts of `<provider>~<topic>~<partition>~<offset>`, None for any other form.

    >>> parse_founding_id("main~assets~0~42")
    FoundingId(provider='main', topic='assets', partition=0, offset=42)
    """
    # From the right: a topic name cannot hold a tilde, a provider's name may.
    parts = text.rsplit("~", 3)
    if len(parts) != 4 or not all(parts):
        return None
    provider, topic, partition, offset = parts
    numbers = _number(partition, _LARGEST_PARTITION), _number(offset, _LARGEST_OFFSET)
    if numbers[0] is None or numbers[1] is None:
        return None
    return FoundingId(provider, topic, numbers[0], numbers[1])


def topic_in_id(topic: str, generation: int) -> str:
    """Return how an id of the founding form names the topic.

    Once a topic was made anew, or has lost its end, its offsets are given to other messages: the
    ids of those have its generation, behind a sign that no topic's name can hold.

    >>> topic_in_id("assets", 0), topic_in_id("assets", 2)
    ('assets', 'assets@2')
    """
    return f"{topic}@{generation}" if generation else topic


def _number(text: str, largest: int) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(largest))):
        return None
    number = int(text)
    return number if number <= largest else None
