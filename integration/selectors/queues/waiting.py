"""What waits for a queue at its JMS broker: looked at, and left there."""

from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from integration.amqp.installed import found
from integration.amqp.waiting import Browsed, JmsMessage, Limits
from integration.delivery.jms_flaws import jms_flaw
from integration.masking.mask import HIDDEN, Mask
from integration.models import Provider, Queue
from integration.registries.reading import Reading, reading_of
from integration.selectors.failures.payloads import PayloadView, show
from integration.selectors.masking.rules import masks

# A page of these, each with what it says.
SHOWN: Final = Limits(messages=100, size=2**20, seconds=5.0)
# Counting takes in what it counts: large messages are counted no further than this.
COUNTED: Final = Limits(messages=1_000, size=4 * 2**20, seconds=5.0)


# The texts of a message that are headers to whoever reads it, as integration.amqp.records has them.
# Ids of messages are shown everywhere: pages are found by them.
HEADERS: Final = {
    "correlation_id": "JMSCorrelationID",
    "reply_to": "JMSReplyTo",
    "jms_type": "JMSType",
    "group_id": "JMSXGroupID",
    "user": "JMSXUserID",
}


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message in JMS's words, and its body as pages show one."""

    said: JmsMessage
    view: PayloadView


@dataclass(frozen=True, slots=True)
class Waiting:
    """The first messages that wait. Unless it `is_all`, more may.

    `is_cut`: the next one alone is larger than all that is shown at once.
    """

    messages: tuple[WaitingMessage, ...]
    is_all: bool
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Depth:
    """How many messages wait, at least where not `is_all`, and when the first one was sent."""

    count: int
    is_all: bool
    oldest_at: datetime | None


def browser_of(provider: Provider, purpose: str) -> Any:
    """An integration.amqp.browsing.Browser. Raises JmsError, JmsLibraryMissingError."""
    return found("queues.browser_of")(provider, purpose)


def waiting(queue: Queue) -> Waiting:
    """Look at what waits for a queue of a JMS broker. Raises JmsError, JmsLibraryMissingError."""
    with closing(browser_of(queue.provider, "look")) as browser:
        there: Browsed = found("queues.browsed")(browser, queue, SHOWN)
    words, reading = found("records.in_words"), reading_of(queue)
    # What goes on to another topic may be anything.
    is_judged = queue.direction == Queue.Direction.INBOUND
    # Which service a message is for is not known before it is read: every rule of the queue counts.
    mask = masks().of_queue(queue)
    shown = tuple(
        _shown(covered(words(data), mask), reading, mask, is_judged=is_judged)
        for data in there.messages
    )
    return Waiting(shown, is_all=there.is_all, is_cut=there.is_cut)


def depth(browser: Any, queue: Queue) -> Depth:
    """Count what waits for a queue. Raises JmsError, JmsLibraryMissingError."""
    there: Browsed = found("queues.browsed")(browser, queue, COUNTED)
    first = [found("records.in_words")(data) for data in there.messages[:1]]
    return Depth(there.count, there.is_all, first[0].sent_at if first else None)


def covered(said: JmsMessage, mask: Mask) -> JmsMessage:
    """The same message: what becomes a header or the key of its record is masked as that is."""
    if mask.is_empty:
        return said
    fields: dict[str, Any] = {
        name: mask.header(header, getattr(said, name)) for name, header in HEADERS.items()
    }
    # The group is both: of what one rule leaves of it the other hides the rest.
    fields["group_id"] = min(fields["group_id"], mask.key_text(said.group_id), key=_left)
    properties = tuple(p._replace(text=mask.header(p.name, p.text)) for p in said.properties)
    return replace(said, **fields, properties=properties)


def _left(shown: str) -> tuple[bool, int]:
    """How much is seen of a value: all of it most, nothing least."""
    return not shown.startswith(HIDDEN[:-1]), len(shown)


def _shown(said: JmsMessage, reading: Reading, mask: Mask, *, is_judged: bool) -> WaitingMessage:
    """What the engine would find wrong with it stands in its view."""
    view = show(said.record.value, list(said.record.headers or ()), reading, mask=mask)
    flaw = jms_flaw(said.record)
    if flaw is not None:
        view = replace(view, pretty="", flaw_code=flaw.code, flaw_text=flaw.text)
    elif not is_judged:
        view = replace(view, flaw_code="", flaw_text="")
    return WaitingMessage(said, view)
