"""Accounts of what handlers published: in the topic that partners read, and at one over HTTP."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.cases.http import ask
from bench.chaos import reading
from bench.chaos.plan import OUT, OUT_CHANNEL, POSTED, POSTED_CHANNEL
from bench.faults.looking import Look
from bench.rig import Rig
from bench.smoke.outbound import compare

Reply = tuple[str, int]

# An effect and what was published with it are one commit.
_EXPECTED: Final = """
SELECT queue, seq FROM chaos_book b WHERE publishes = %s AND EXISTS (
  SELECT 1 FROM chaos_effect f WHERE f.queue = b.queue AND f.seq = b.seq)
"""
_POSTED: Final = """
SELECT message_id, convert_from(value, 'UTF8') FROM integration_outboxrow
WHERE topic = %s AND kind = 'MESSAGE' ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Replies:
    """The sums: what was to be published, and what went wrong with it."""

    published: int
    lost: int
    doubled: int
    out_of_order: int = 0

    def __add__(self, other: "Replies") -> "Replies":
        return Replies(
            self.published + other.published,
            self.lost + other.lost,
            self.doubled + other.doubled,
            self.out_of_order + other.out_of_order,
        )


def once(expected: Collection[Reply], seen: Sequence[Reply]) -> Replies:
    """Each that was to be published has to be there once, and nothing else."""
    due, there = set(expected), set(seen)
    return Replies(len(due), len(due - there), len(seen) - len(due & there))


def account(rig: Rig, partner: str) -> Replies:
    """Sum up both ways out. `partner` is the address of the one over HTTP."""
    arrivals = json.loads(ask(f"{partner}order", "GET"))
    read = once(_expected(rig, OUT_CHANNEL), reading.published(rig.bootstrap, OUT))
    rows = rig.rows(_POSTED, [POSTED])
    written = once(_expected(rig, POSTED_CHANNEL), [reading.reply(value) for _, value in rows])
    return read + written + posted([id_ for id_, _ in rows], arrivals)


def posted(ids: Sequence[str], arrivals: dict[str, Any]) -> Replies:
    """What became of the rows with these ids, in their order, at the partner."""
    places = {id_: place for place, id_ in enumerate(ids)}
    sent = compare(range(len(ids)), places, arrivals["order"], arrivals["posts"])
    return Replies(0, sent.lost, sent.doubled, sent.out_of_order)


def are_posted(look: Look, partner: str) -> bool:
    """Return whether the partner has as many ids as there are rows for it."""
    rows = look.rows(_POSTED, [POSTED])
    return rows is not None and json.loads(ask(partner, "GET"))["ids"] >= len(rows)


def _expected(rig: Rig, channel: str) -> list[Reply]:
    return [(queue, seq) for queue, seq in rig.rows(_EXPECTED, [channel])]
