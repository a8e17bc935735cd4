"""The founding JSON envelope out, so that any Kafka client can read it."""

import re
import zlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from json import JSONEncoder
from json.encoder import encode_basestring
from typing import ClassVar, Final
from uuid import uuid4

from integration.envelope.document import JSON, XML
from integration.errors import IntegrationError

# Below this, Base64 and its overhead cost what compression saves.
PLAIN_BELOW: Final = 1024
_ENCODING: Final = re.compile(r"""(\A\s*<\?xml[^>]*?\sencoding\s*=\s*)(?:"[^"]*"|'[^']*')""")
_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
# JSON's writing of a text, without escaping what is not ASCII.
_quoted: Final[Callable[[str], str]] = encode_basestring


class UnwritableMessage(IntegrationError):  # noqa: N818 - named after what it is about
    """A message's text holds half characters (lone surrogates), which no encoding can carry."""

    code: ClassVar[str] = "UNWRITABLE_MESSAGE"

    def __init__(self, *, message_id: str) -> None:
        super().__init__(
            f"The message {message_id!r} holds half a character (a lone surrogate).",
            next_step="Correct the text that is published.",
        )
        self.message_id = message_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to be written; `payload` is JSON or XML text, or the bytes of one.

    `topic` becomes `destjndiname`; `message_id` is the message's own id for life, because an
    offset cannot be known before the write.
    """

    interface: str
    sender: str
    destination: str
    topic: str
    message_id: str
    payload: str | bytes
    user: str | None = None

    @property
    def mimetype(self) -> str:
        begins = self.payload.lstrip()[:1]
        return XML if begins in {"<", b"<"} else JSON


def write(message: Outgoing, *, compress: bool | None = None) -> bytes:
    """Return the envelope as JSON bytes with the founding names and no others.

    `compress=None` decides by size. Bytes that are not UTF-8 are always compressed, since only
    Base64 carries them unchanged. Raises UnwritableMessage.
    """
    try:
        return _encode(_envelope(message, compress)).encode()
    except UnicodeEncodeError as failure:
        raise UnwritableMessage(message_id=message.message_id) from failure


class Alike:
    """Messages that differ by their ids and payloads alone: the same bytes as `write`'s, sooner.

    What stands around these two is written once. Whoever else can write a JSON string may put them
    together, too: `before`, the payload, `between`, the id, `after`; of objects whose text has
    fewer than PLAIN_BELOW characters.
    """

    def __init__(self, like: Outgoing) -> None:
        self._like = like
        payload, message_id = f"{{{uuid4()}", str(uuid4())
        whole = write(replace(like, payload=payload, message_id=message_id)).decode()
        self.before, rest = whole.split(_quoted(payload))
        self.between, self.after = rest.split(_quoted(message_id))

    def write(self, message_id: str, payload: str) -> bytes:
        """Return one of them. Raises UnwritableMessage."""
        if payload[:1] != "{" or len(payload) >= PLAIN_BELOW:
            return write(replace(self._like, payload=payload, message_id=message_id))
        text = f"{self.before}{_quoted(payload)}{self.between}{_quoted(message_id)}{self.after}"
        try:
            return text.encode()
        except UnicodeEncodeError as failure:
            raise UnwritableMessage(message_id=message_id) from failure


def _envelope(message: Outgoing, compress: bool | None) -> dict[str, str]:
    packed = _packed(message.payload, compress)
    envelope = {"interfacetype": "MAXIMO", "INTERFACE": message.interface}
    envelope["payload"] = _text(message.payload) if packed is None else packed
    envelope["SENDER"] = message.sender
    envelope["destination"] = message.destination
    envelope["destjndiname"] = message.topic
    if packed is not None:
        envelope["compressed"] = "1"
    envelope["MEAMessageID"] = message.message_id
    envelope["mimetype"] = message.mimetype
    if message.user:
        envelope["USER"] = message.user
    return envelope


def _packed(payload: str | bytes, compress: bool | None) -> str | None:
    """Return the payload as Base64 of zlib output, or None if it goes as plain text."""
    if isinstance(payload, str):
        if not (len(payload) >= PLAIN_BELOW if compress is None else compress):
            return None
        # The bytes will be UTF-8, so a declaration that says otherwise would be a lie.
        plain = _ENCODING.sub(r'\1"UTF-8"', payload).encode()
    else:
        if compress is None:
            compress = len(payload) >= PLAIN_BELOW
        if not compress and _is_utf8(payload):
            return None
        plain = payload
    return b64encode(zlib.compress(plain)).decode()


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(payload: str | bytes) -> str:
    return payload if isinstance(payload, str) else payload.decode()
