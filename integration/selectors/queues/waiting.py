"""What waits for a queue at its JMS broker: looked at, and left there."""

from dataclasses import dataclass, replace
from typing import Final

from integration.amqp.installed import found
from integration.amqp.waiting import Browsed, JmsMessage, Limits
from integration.delivery.jms_flaws import jms_flaw
from integration.models import Queue
from integration.registries.reading import Reading, reading_of
from integration.selectors.failures.payloads import PayloadView, show

# A page of these, each with what it says.
SHOWN: Final = Limits(messages=100, size=2**20, seconds=5.0)


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


def waiting(queue: Queue) -> Waiting:
    """Look at what waits for a queue of a JMS broker. Raises JmsError, JmsLibraryMissingError."""
    browser = found("queues.browser_of")(queue.provider, "look")
    try:
        there: Browsed = found("queues.browsed")(browser, queue, SHOWN)
    finally:
        browser.close()
    words, reading = found("records.in_words"), reading_of(queue)
    # What goes on to another topic may be anything.
    is_judged = queue.direction == Queue.Direction.INBOUND
    shown = tuple(_shown(words(data), reading, is_judged=is_judged) for data in there.messages)
    return Waiting(shown, is_all=there.is_all, is_cut=there.is_cut)


def _shown(said: JmsMessage, reading: Reading, *, is_judged: bool) -> WaitingMessage:
    """What the engine would find wrong with it stands in its view."""
    view = show(said.record.value, list(said.record.headers or ()), reading)
    flaw = jms_flaw(said.record)
    if flaw is not None:
        view = replace(view, pretty="", flaw_code=flaw.code, flaw_text=flaw.text)
    elif not is_judged:
        view = replace(view, flaw_code="", flaw_text="")
    return WaitingMessage(said, view)
