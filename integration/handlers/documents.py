"""Publishing what comes as bytes: by the command line and over HTTP."""

from integration.handlers.payloads import PayloadRefusedError
from integration.handlers.publishing import GivenHeaders, Publication, publish


def publish_document(
    channel: str, body: bytes, key: str | None = None, *, headers: GivenHeaders = ()
) -> Publication:
    """Publish JSON or XML text, as the channel's format has it, in the caller's transaction.

    UTF-8, or any encoding that an XML text declares. Without a key the channel's paths find it.
    Raises what publish() raises; for an empty body PayloadRefusedError (EMPTY_BODY).
    """
    if not body.strip():
        text = f"{channel}: there is nothing in it. A tombstone is published by a program only."
        raise PayloadRefusedError(text, code="EMPTY_BODY")
    return publish(channel, body, key=key or None, headers=headers)
