"""The masks of messages on their way out: rows of the outbox, by the queues of their topic."""

from collections.abc import Iterable
from dataclasses import replace

from integration.codec import decode_headers
from integration.envelope import read, read_unwrapped
from integration.handlers.outgoing import INTERFACE
from integration.masking.mask import Mask, Rule, mask_of
from integration.models import OutboxRow, Queue
from integration.registries.reading import Reading
from integration.selectors.failures.payloads import Contents, contents_of
from integration.selectors.masking.covers import words_for
from integration.selectors.masking.rules import Masks, masks


def mask_of_row(row: OutboxRow) -> Mask:
    """What is hidden of an outgoing message: by all rules of all queues that its topic is read by.

    Of a topic that no queue reads, by every rule that its service or channel fits.
    """
    rules = masks()
    if not rules.rules:
        return mask_of(frozenset())
    return mask_of_topic(rules, row.provider_id, row.topic, interfaces_in(row))


def contents_of_row(row: OutboxRow, mask: Mask) -> Contents:
    """Payload, key and headers of an outgoing message, laid out for reading."""
    reading = reading_of_topic(row.provider_id, row.topic)
    shown = contents_of(row.value, row.key, row.headers, reading, mask=mask)
    if mask.is_empty:
        return shown
    records = [] if row.value is None else [bytes(row.value)]
    key = None if row.key is None else bytes(row.key)
    words = words_for(records, decode_headers(row.headers), key, mask=mask, reading=reading)
    # A header may repeat what is in the payload.
    headers = tuple((name, words.hide(value)) for name, value in shown.headers)
    return replace(shown, headers=headers, key=words.hide(shown.key))


def reading_of_topic(provider: int | None, topic: str) -> Reading:
    """How a message that goes to this topic is read.

    Out of its retry wrapper, unless the topic has queues and none of them has the wrapper.
    """
    wrappers = Queue.objects.filter(provider=provider, topic=topic).values_list("retry_wrapper")
    known = {wraps for (wraps,) in wrappers}
    return read if known == {False} else read_unwrapped


def mask_of_topic(
    rules: Masks, provider: int | None, topic: str, interfaces: tuple[str, ...]
) -> Mask:
    """The mask of a message that goes to this topic."""
    return mask_of(rules_of_topic(rules, provider, topic, interfaces))


def rules_of_topic(
    rules: Masks, provider: int | None, topic: str, interfaces: tuple[str, ...]
) -> frozenset[Rule]:
    """The rules for a message that goes to this topic."""
    queues = list(Queue.objects.filter(provider=provider, topic=topic))
    if not queues:
        return rules.fitting([(None, None)], interfaces)
    return rules.fitting([(queue.pk, queue.system_id) for queue in queues], interfaces)


def interfaces_in(row: OutboxRow) -> tuple[str, ...]:
    """The service or channel that its header names."""
    return named_in(decode_headers(row.headers))


def named_in(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, ...]:
    """The service or channel that these headers name."""
    values = [value for name, value in headers if name == INTERFACE and value]
    return tuple(value.decode(errors="replace") for value in values)
