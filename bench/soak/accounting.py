"""Accounts of the soak in SQL and by a reader of the topic, once everything has ended."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench import traffic
from bench.cases.http import ask
from bench.rig import Rig
from bench.soak.plan import KEYED, KEYS, LINE, OUT, PARTITIONS, POSTED, SHARES, published_to

APPLIED: Final = (
    "SELECT queue, count(*), count(DISTINCT seq), max(seq) FROM bench_effect GROUP BY 1"
)
# Within a key; on the line as a whole.
_OUT_OF_ORDER: Final = """
SELECT count(*) FROM (
  SELECT seq, max(seq) OVER (PARTITION BY queue, CASE queue WHEN %s THEN seq %% %s END
    ORDER BY written_at ROWS UNBOUNDED PRECEDING) AS highest
  FROM bench_effect WHERE queue IN (%s, %s)
) placed WHERE seq < highest
"""


@dataclass(frozen=True, slots=True)
class Account:
    """The sums of what came in, and of what went out."""

    sent: int
    lost: int
    doubled: int
    out_of_order: int
    published: int
    out_lost: int
    out_doubled: int


def account(rig: Rig, sent: Mapping[str, int], partner: str) -> Account:
    """Compare what was sent (queue -> messages) with what it has come to."""
    rows = {queue: figures for queue, *figures in rig.rows(APPLIED)}
    effects = {queue: rows.get(queue, (0, 0, -1)) for queue in SHARES}
    ways = [_topic(rig, sent), _posts(sent, partner)]
    return Account(
        sent=sum(sent.values()),
        lost=sum(max(sent[queue] - kinds, 0) for queue, (_, kinds, _) in effects.items()),
        doubled=sum(
            every - kinds + max(last + 1 - sent[queue], 0)
            for queue, (every, kinds, last) in effects.items()
        ),
        out_of_order=int(rig.value(_OUT_OF_ORDER, [KEYED, KEYS, KEYED, LINE])),
        published=sum(expected for expected, _, _ in ways),
        out_lost=sum(lost for _, lost, _ in ways),
        out_doubled=sum(doubled for _, _, doubled in ways),
    )


def _expected(sent: Mapping[str, int], target: str) -> Counter[int]:
    """How often each seq is to be published there: queues count for themselves."""
    return Counter(
        seq
        for queue, count in sent.items()
        for seq in range(count)
        if published_to(queue, seq) == target
    )


def _topic(rig: Rig, sent: Mapping[str, int]) -> tuple[int, int, int]:
    """What was to be published to the topic, and how many of that are lost and doubled."""
    expected = _expected(sent, OUT)
    there = Counter(
        int(_body(record.value())["seq"])
        for record in traffic.committed(rig.bootstrap, OUT, PARTITIONS[OUT])
        if record.value()
    )
    return expected.total(), (expected - there).total(), (there - expected).total()


def _posts(sent: Mapping[str, int], partner: str) -> tuple[int, int, int]:
    """The same of what is posted. What comes again under its id is dropped by the partner."""
    expected = _expected(sent, POSTED).total()
    arrived = int(json.loads(ask(partner, "GET"))["ids"])
    return expected, max(expected - arrived, 0), max(arrived - expected, 0)


def _body(value: bytes) -> Mapping[str, int]:
    document = json.loads(value)
    payload = document.get("payload", document)
    body: Mapping[str, int] = json.loads(payload) if isinstance(payload, str) else payload
    return body
