"""The way out of the smoke run: what handlers publish, and what the partner has of it.

Every tenth message of the strict queue publishes one of its own, in its handler's transaction. It
goes through a channel, the outbox, the relay and a sequential outbound queue to a partner over
HTTP who drops what is posted again under the same message id.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.cases.http import ask, partner
from bench.rig import Rig

CHANNEL: Final = "SmokeReply"
QUEUE: Final = "smoke-out"
_PUBLISHED: Final = """
SELECT message_id, convert_from(key, 'UTF8')::bigint FROM integration_outboxrow
WHERE topic = %s AND kind = 'MESSAGE' ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class SentOut:
    """The sums: what was published, and what went wrong with it.

    `lost` counts what the partner never got or was never published, `doubled` what it got twice
    under different ids or from nobody, `repeated` the posts that it dropped by their id.
    """

    published: int
    received: int
    lost: int
    doubled: int
    out_of_order: int
    repeated: int


@dataclass(frozen=True, slots=True)
class WayOut:
    """A partner that is there, and the seqs of the messages that are to reach it, in order."""

    rig: Rig
    address: str
    expected: Sequence[int]

    @property
    def configuration(self) -> dict[str, object]:
        return {
            "name": QUEUE,
            "topic": QUEUE,
            "kind": "sequential",
            "address": self.address,
            "idempotent": True,
            "channel": CHANNEL,
        }

    def is_over(self) -> bool:
        """Return whether the partner has as many messages as are to reach it."""
        return int(json.loads(ask(self.address, "GET"))["ids"]) >= len(self.expected)

    def account(self) -> SentOut:
        arrivals = json.loads(ask(f"{self.address}order", "GET"))
        published = dict(self.rig.rows(_PUBLISHED, [QUEUE]))
        return compare(self.expected, published, arrivals["order"], arrivals["posts"])


def way_out(rig: Rig, expected: Sequence[int]) -> WayOut:
    """Make the topic, and start the partner."""
    rig.topic(QUEUE)
    return WayOut(rig, partner(rig, "partner", 0), expected)


def compare(
    expected: Sequence[int], published: dict[str, int], received: Sequence[str], posts: int
) -> SentOut:
    """Compare what was to be published, what was (id to seq), and the ids in order of arrival."""
    arrived = [published[id_] for id_ in received if id_ in published]
    in_order = sorted(arrived)
    return SentOut(
        published=len(published),
        received=len(received),
        lost=len(set(expected) - set(arrived)),
        doubled=len(received) - len(set(arrived) & set(expected)),
        out_of_order=sum(a != b for a, b in zip(arrived, in_order, strict=True)),
        repeated=posts - len(received),
    )
