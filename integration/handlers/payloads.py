"""The payload of publish(): text in its channel's format, judged, with its key."""

from dataclasses import dataclass
from typing import Any

from lxml import etree

from integration import envelope as envelopes
from integration.documents.exact_json import encode
from integration.documents.structures import Plan, is_xml
from integration.envelope import DEFAULT, Flaw, FlawCode
from integration.handlers.failures import PermanentError
from integration.paths import Path, key_of
from integration.policy.failure import Failure

Key = str | bytes | None


class PayloadRefusedError(PermanentError):
    """A channel does not publish this payload; `failure_code` says why.

    NO_KEY, KEY_TOO_LONG, SCHEMA_VIOLATION, SCHEMA_UNUSABLE, SCHEMA_TOO_DEEP, or what is wrong
    with the text (BAD_JSON, BAD_XML, …), apart from the subclasses.
    """


class PayloadFormatError(PayloadRefusedError):
    """The payload is not what the channel's format asks for."""

    code = "PAYLOAD_FORMAT"


class PayloadTooLargeError(PayloadRefusedError):
    """The record would be larger than its topic takes, or than is ever read."""

    code = "PAYLOAD_TOO_LARGE"

    def __init__(self, channel: str, size_bytes: int, most_bytes: int, where: str) -> None:
        super().__init__(
            f"The message of {channel} has {size_bytes:,} bytes; {where} takes {most_bytes:,}. "
            "Publish it in parts, or raise max.message.bytes of the topic."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules by which a channel judges payloads; `plan` is its structure's."""

    channel: str
    is_xml: bool
    key_paths: tuple[Path, ...]
    plan: Plan | None

    @property
    def judges(self) -> bool:
        return self.plan is not None and self.plan.judge is not None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payload ready to be written: its text (None = a tombstone) and the record's key."""

    text: str | bytes | None
    key: bytes | None


def prepare(rules: Rules, payload: object, key: Key = None) -> Prepared:
    """The payload as its channel publishes it. Raises PayloadRefusedError.

    The key is the given one, else what the channel's key path finds, else what the structure's
    key paths find (several values as a JSON array), else none.
    """
    if payload is None:
        if key is None:
            sentence = f"A tombstone of {rules.channel} needs a key: give one to publish()."
            raise PayloadRefusedError(sentence, code=FlawCode.NO_KEY)
        return Prepared(None, _bytes(key))
    text, body = _xml(rules, payload) if rules.is_xml else _json(rules, payload)
    needs_key = key is None and bool(rules.key_paths)
    if body is None and (needs_key or rules.judges):
        body = _read(rules, text)
    if rules.plan is not None and (failure := rules.plan.refused(body)):
        raise _refusal(rules, failure)
    return Prepared(text, _found_key(rules, body) if needs_key else _bytes(key))


def as_text(payload: Any) -> str | bytes:
    """The payload's text: what is text already stays as it is. Raises ValueError."""
    if isinstance(payload, str | bytes):
        return payload
    if isinstance(payload, etree._Element):  # noqa: SLF001 - lxml's only name for it
        return etree.tostring(payload, encoding="unicode")
    return encode(payload)


def _json(rules: Rules, payload: object) -> tuple[str | bytes, object]:
    """The text, and what is in it where it had to be read."""
    if is_xml(payload):
        raise _wrong_format(rules, "an XML element")
    if isinstance(payload, str | bytes):
        body = _read(rules, payload)
        if is_xml(body):
            raise _wrong_format(rules, "XML text")
        return payload, body
    try:
        return encode(payload), None
    except ValueError as e:
        text = f"{rules.channel} publishes JSON, and the payload cannot be written as such: {e}."
        raise PayloadFormatError(text) from e


def _xml(rules: Rules, payload: object) -> tuple[str | bytes, object]:
    if is_xml(payload):
        return as_text(payload), payload
    if not isinstance(payload, str | bytes):
        raise _wrong_format(rules, f"a {type(payload).__name__}")
    body = _read(rules, payload)
    if not is_xml(body):
        raise _wrong_format(rules, "JSON text")
    return payload, body


def _wrong_format(rules: Rules, payload: str) -> PayloadFormatError:
    form, how = "JSON", "a dict, a list or JSON text"
    if rules.is_xml:
        form, how = "XML", "an lxml element or XML text"
    text = f"{rules.channel} publishes {form}, and was given {payload}. Hand over {how}."
    return PayloadFormatError(text)


def _read(rules: Rules, text: str | bytes) -> object:
    if len(text) > DEFAULT.max_bytes:
        raise PayloadTooLargeError(rules.channel, len(text), DEFAULT.max_bytes, "a message")
    body = envelopes.body_of(text)
    if isinstance(body, Flaw):
        raise PayloadRefusedError(f"{rules.channel}: {body.message}", code=body.code)
    return body


def _found_key(rules: Rules, body: object) -> bytes:
    key = key_of(rules.key_paths, body)
    if isinstance(key, Flaw):
        text = f"{rules.channel}: {key.message} Give a key to publish(), or correct the payload."
        raise PayloadRefusedError(text, code=key.code)
    return key.encode()


def _refusal(rules: Rules, failure: Failure) -> PayloadRefusedError:
    return PayloadRefusedError(f"{rules.channel}: {failure.text}", code=failure.code)


def _bytes(key: Key) -> bytes | None:
    return key.encode() if isinstance(key, str) else key
