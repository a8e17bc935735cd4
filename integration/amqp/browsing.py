"""Looks at the messages that wait at an address, and takes none of them.

The source of such a link copies (AMQP 1.0, part 3.5.3): a message stays for those who consume. What
a consumer has received already, whether or not it has accepted it, brokers may leave out; Artemis
does.
"""

import time
from dataclasses import replace
from itertools import count
from typing import Any, Final

from proton import Link, Terminus, symbol

from integration.amqp.connection import AmqpConnection, EndedError, has_address
from integration.amqp.errors import (
    JmsAddressUnknownError,
    JmsBrowseRefusedError,
    JmsError,
    JmsRightsError,
    JmsSubscriptionHiddenError,
    JmsUnreachableError,
)
from integration.amqp.incoming import Incoming
from integration.amqp.opening import connect, not_open
from integration.amqp.receiving import Address, choose
from integration.amqp.waiting import Browsed, Limits
from integration.models.provider import Provider

OPEN_SECONDS: Final = 5.0
# Artemis may overhear a question that comes while it ends its work on the one before.
AGAIN_SECONDS: Final = 1.0
_numbers = count()


class Browser:
    """A connection to a broker on which one address after the other is looked at.

    After a JmsUnreachableError it is of no use any more.
    """

    def __init__(self, provider: Provider, *, name: str) -> None:
        """Connect. Raises JmsError."""
        self._provider = provider.name
        self._connection = connect(provider, name=name)

    def look(self, address: Address, limits: Limits, *, reader: str) -> Browsed:
        """Return what waits there. `reader` is the connection that has the durable subscription.

        Raises JmsError.
        """
        named = _named(address, reader)
        link = _link(self._connection, address, named)
        try:
            _open(self._connection, link)
            return _browsed(self._connection, link, limits)
        except (EndedError, TimeoutError) as problem:
            raise self._problem(address, named, link, problem) from problem
        finally:
            self._connection.close_link(link)

    def close(self) -> None:
        self._connection.close()

    def _problem(
        self, address: Address, named: str, link: Link, problem: EndedError | TimeoutError
    ) -> JmsError:
        if not self._connection.has_ended_alone(link):
            return JmsUnreachableError(self._provider, f"{named}: {problem}")
        told = not_open(self._provider, replace(address, name=named), problem)
        if address.subscription and isinstance(told, JmsAddressUnknownError):
            return JmsSubscriptionHiddenError(self._provider, f"it knows no {named}")
        if isinstance(told, JmsRightsError):
            return JmsBrowseRefusedError(self._provider, f"{named}: {problem}")
        return told


def _named(address: Address, reader: str) -> str:
    """Artemis keeps a durable subscription in a queue of that name, and lets it be named so."""
    if not address.subscription:
        return address.name
    return f"{address.name}::{reader}.{address.subscription}"


def _link(connection: AmqpConnection, address: Address, named: str) -> Any:
    link = connection.session.receiver(f"sluice-browse-{next(_numbers)}")
    link.source.address = link.target.address = named
    link.source.distribution_mode = Terminus.DIST_MODE_COPY
    link.source.capabilities.put_object(symbol(address.kind))
    choose(link, address.selector)
    link.snd_settle_mode = Link.SND_SETTLED
    return link


def _open(connection: AmqpConnection, link: Any) -> None:
    """Raises EndedError, TimeoutError."""
    connection.open(link, OPEN_SECONDS)
    if not has_address(link.remote_source):
        # It raises what the broker gives as its reason.
        connection.until(lambda: False, OPEN_SECONDS)


def _browsed(connection: AmqpConnection, link: Any, limits: Limits) -> Browsed:
    """Raises EndedError, and TimeoutError where the broker has said nothing at all."""
    ends_at = time.monotonic() + limits.seconds
    incoming = Incoming(link)
    messages: list[bytes] = []
    size = 0
    asked_at = -1
    while size + incoming.begun <= limits.size:
        received = incoming.next()
        if received is not None and len(messages) == limits.messages:
            return Browsed(messages, is_all=False)
        if received is not None:
            messages.append(received.data)
            size += len(received.data)
        elif link.credit == 0 and not incoming.has_one:
            if asked_at == len(messages):
                return Browsed(messages, is_all=True)
            # Behind a large one Artemis says too early that there is nothing: it is asked until
            # nothing more has come. With one above the most it tells whether there are more.
            asked_at = len(messages)
            link.drain(limits.messages + 1 - asked_at)
        else:
            try:
                _await_more(connection, link, incoming, ends_at)
            except TimeoutError:
                if not messages and not incoming.begun:
                    raise
                break
    return Browsed(messages, is_all=False, is_cut=incoming.begun > 0)


def _await_more(connection: AmqpConnection, link: Any, incoming: Incoming, ends_at: float) -> None:
    """Wait for a message or the answer that there is none. Raises EndedError, TimeoutError."""
    while (left := ends_at - time.monotonic()) > AGAIN_SECONDS:
        try:
            connection.until(lambda: _is_further(link, incoming), AGAIN_SECONDS)
        except TimeoutError:
            link.drain(0)
        else:
            return
    connection.until(lambda: _is_further(link, incoming), left)


def _is_further(link: Any, incoming: Incoming) -> bool:
    return incoming.has_more if incoming.has_one else link.credit == 0
