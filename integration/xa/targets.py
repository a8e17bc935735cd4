"""The topics that a branch's messages are for: a promise is given only if they will take them."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from integration.kafka import targets
from integration.kafka.errors import SendFailedError
from integration.kafka.targets import Target
from integration.models import Provider
from integration.xa.outgoing import Outgoing

# What was found stays true for a while, as it has to until the commit anyhow.
KNOWN_SECONDS: Final = 60.0
# A new topic needs a moment to reach every broker; a producer would wait as long for it.
COMING_SECONDS: Final = 2.0
COMING_PAUSE_SECONDS: Final = 0.1
# What Kafka's format may add to a packet, to each record in it, and to each of its headers.
_PACKET_BYTES: Final = 61
_RECORD_BYTES: Final = 40
_HEADER_BYTES: Final = 10


class Targets:
    """What is known of topics. Safe for several threads."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._known: dict[str, tuple[Target, float]] = {}

    def check(self, name: str, messages: Sequence[Outgoing]) -> None:
        """Raises SendFailedError for what would be refused, BrokerUnreachableError."""
        found = self.of({message.topic for message in messages})
        refused = [reason for each in messages if (reason := _refusal(found[each.topic], each))]
        if refused:
            raise SendFailedError(name, len(refused), refused[0])

    def of(self, topics: Iterable[str]) -> dict[str, Target]:
        """The topics as they were within the last minute. Raises BrokerUnreachableError."""
        wanted, oldest = sorted(set(topics)), time.monotonic() - KNOWN_SECONDS
        known = {name: self._known.get(name, (Target(), 0.0)) for name in wanted}
        unknown = [name for name, (_, at) in known.items() if at < oldest]
        found = self._asked(unknown) if unknown else {}
        return {name: found.get(name, known[name][0]) for name in wanted}

    def _asked(self, topics: list[str]) -> dict[str, Target]:
        began, deadline = time.monotonic(), time.monotonic() + COMING_SECONDS
        found = dict(targets.ask(self._provider, topics))
        while lacking := [name for name, target in found.items() if not target.is_there]:
            if time.monotonic() > deadline:
                break
            time.sleep(COMING_PAUSE_SECONDS)
            found |= targets.ask(self._provider, lacking)
        # One that is refused may be mended at once.
        good = {name: each for name, each in found.items() if each.is_there and each.may_write}
        self._known |= {name: (target, began) for name, target in good.items()}
        return found


def _refusal(target: Target, message: Outgoing) -> str:
    """Why the topic would not take a message; nothing where it will."""
    if not target.is_there:
        return f"there is no topic {message.topic}"
    if not target.may_write:
        return f"the provider's user may not write to the topic {message.topic}"
    if target.needs_key and message.key is None:
        return f"the topic {message.topic} is compacted, and takes no message without a key"
    size = size_of(message) + _PACKET_BYTES
    if target.most_bytes is not None and size > target.most_bytes:
        return (
            f"a message has {size:,} bytes before compression, and the topic {message.topic} takes "
            f"at most {target.most_bytes:,} (max.message.bytes)"
        )
    return ""


def size_of(message: Outgoing) -> int:
    """The bytes of a record, before compression; a few more where its parts are short."""
    headers = sum(
        len(name.encode()) + len(value or b"") + _HEADER_BYTES for name, value in message.headers
    )
    return _RECORD_BYTES + len(message.key or b"") + len(message.value or b"") + headers


class Packets:
    """Says when what was sent has to be out first, as a packet would be too large for its topic."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._waiting: dict[str, int] = {}

    def is_full(self, message: Outgoing) -> bool:
        """Whether to flush before the message is sent. Raises BrokerUnreachableError."""
        most = self._targets.of([message.topic])[message.topic].most_bytes
        size = size_of(message)
        waiting = self._waiting.get(message.topic, _PACKET_BYTES)
        is_full = most is not None and waiting > _PACKET_BYTES and waiting + size > most
        if is_full:
            self._waiting = {}
            waiting = _PACKET_BYTES
        self._waiting[message.topic] = waiting + size
        return is_full
