"""The one place where a retry wrapper is taken off a record that is read for people or by jobs.

What comes of it knows its wrapper, so that a changed document is put back into it.
"""

from integration.envelope.document import Document
from integration.envelope.fields import Headers
from integration.envelope.flaw import Flaw
from integration.envelope.reading import read
from integration.envelope.retry_wrapper import unwrap


class Unwrapped(Document):
    """A document out of a retry wrapper: `inner` is read from what was wrapped, `message`."""

    __slots__ = ("inner", "message")

    def __init__(self, inner: Document, message: bytes) -> None:
        super().__init__(
            inner.interface,
            inner.sender,
            inner.user,
            inner.destination,
            inner.message_id,
            inner.mimetype,
            True,
            inner.body,
            inner._source,  # noqa: SLF001 - a Document, too
        )
        self.inner = inner
        self.message = message


def read_unwrapped(value: bytes, headers: Headers | None = None) -> Document | Flaw:
    """Return what `read` does, of what is wrapped where the record is a retry wrapper.

    So the engine reads a queue that has the wrapper. Raises nothing for any bytes.
    """
    wrapped = unwrap(value)
    if wrapped is None:
        return read(value, headers)
    inner = read(wrapped[1], headers)
    return inner if isinstance(inner, Flaw) else Unwrapped(inner, wrapped[1])


def layers_of(document: Document) -> int:
    """Return in how many wrappings a document stands: retry wrapper, envelope.

    >>> layers_of(read(b'{"a": 1}')), layers_of(read_unwrapped(b'{"retryCount":0,"message":{}}'))
    (0, 1)
    """
    if isinstance(document, Unwrapped):
        return 1 + layers_of(document.inner)
    return int(document.wrapped)
