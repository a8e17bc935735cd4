"""The plan of the smoke run: two queues, and which of their messages fail in which way."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.smoke.outbound import CHANNEL

KILLS: Final = 3
# One in so many messages of the strict queue publishes.
PUBLISHING_EACH: Final = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """One queue: its settings, how many messages it gets, and what some of them do.

    `failing` maps seq to "held" (no retry helps), "always", or the number of the first try that
    succeeds. The messages of `publishing` publish one of their own.
    """

    queue: str
    kind: str
    messages: int
    settings: Mapping[str, object]
    failing: Mapping[int, str | int]
    expected_held: int
    publishing: range = range(0)

    def payload(self, seq: int) -> bytes:
        payload: dict[str, object] = {"seq": seq}
        if seq in self.failing:
            payload["fails"] = self.failing[seq]
        if seq in self.publishing:
            payload["publishes"] = CHANNEL
        return json.dumps(payload).encode()

    @property
    def configuration(self) -> dict[str, object]:
        return {
            "name": self.queue,
            "topic": self.queue,
            "kind": self.kind,
            "interface": "BenchPing",
            **self.settings,
        }


def spread(messages: int, count: int, first: int) -> range:
    """`count` places spread evenly over the messages, beginning with `first`."""
    return range(first, messages, messages // count)


def sequential(messages: int) -> Plan:
    """Some succeed at their second try; six need a person, and succeed at their third.

    Every tenth publishes, and of those some fail before.
    """
    failing: dict[int, str | int] = dict.fromkeys(spread(messages, 10, messages // 20), 2)
    failing |= dict.fromkeys(spread(messages, 6, messages // 11), 3)
    settings = {"max_retries": 1, "retry_delay_seconds": 0.2}
    publishing = range(0, messages, PUBLISHING_EACH)
    return Plan("smoke-sequential", "sequential", messages, settings, failing, 0, publishing)


def continuous(messages: int) -> Plan:
    """Some succeed at their second try; 25 never do, and 25 are refused at once: 50 are held."""
    failing: dict[int, str | int] = dict.fromkeys(spread(messages, 50, 3), 2)
    failing |= dict.fromkeys(spread(messages, 25, 11), "always")
    failing |= dict.fromkeys(spread(messages, 25, 17), "held")
    held = sum(kind in {"always", "held"} for kind in failing.values())
    settings = {"max_retries": 2, "retry_delay_seconds": 1.0}
    return Plan("smoke-continuous", "continuous", messages, settings, failing, held)
