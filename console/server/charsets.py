"""Charsets by which nothing can be read, taken away before Django makes a request of them.

Django reads the address by the charset that the Content-Type names, as soon as Python has a codec
of that name: also by those from bytes to bytes, such as base64, which ends in an error before any
middleware is asked.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from django.utils.http import parse_header_parameters

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
EVERY_BYTE: Final = bytes(range(256))


def readable(application: Application) -> Application:
    """The same application, of requests that can be read: without a charset it is UTF-8."""

    def answered(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        content_type = environ.get("CONTENT_TYPE", "")
        if not _can_be_read(content_type):
            environ["CONTENT_TYPE"] = content_type.partition(";")[0]
        return application(environ, start_response)

    return answered


def _can_be_read(content_type: str) -> bool:
    try:
        charset = parse_header_parameters(content_type)[1].get("charset")
        return charset is None or bool(EVERY_BYTE.decode(charset, "replace"))
    except (LookupError, ValueError):
        return False
