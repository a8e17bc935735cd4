"""The number of posts a second that the HTTP API takes for good."""

import hashlib
import json
from typing import Final

from bench import pairs, posting
from bench.facts import percentile
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.rig import Rig

SENDERS: Final = 32
POSTS: Final = 2_000
QUEUE: Final = "posts"
# The table of bench.app.bare, which only the web server can import.
TABLE: Final = "bench_posted"
TOKEN: Final = "sluice_benchmrk_only-for-the-benchmark"  # noqa: S105 - opens nothing else
P99_SECONDS: Final = 0.250
_TABLE: Final = (
    f"CREATE TABLE {TABLE} (id bigserial PRIMARY KEY, body bytea NOT NULL, "
    "posted_at timestamptz NOT NULL)"
)
_ADMIT: Final = """
INSERT INTO integration_apitoken (system_id, name, prefix, token_hash, may_post, may_call, may_read,
  may_publish, services, created_at, created_by)
SELECT id, 'bench', %s, %s, true, false, false, false, '[]', now(), 'bench'
FROM integration_externalsystem WHERE name = 'benchmarks'"""


def esqueue_intake(ground: Ground) -> Figure:
    """Posts of 300 bytes by 32 senders: token, route, body read, message and receipt committed."""
    count = POSTS // 5 if ground.quick else POSTS
    with ground.rig("esqueue_intake") as rig:
        address = _ready(rig)
        ours: list[posting.Posted] = []
        theirs: list[posting.Posted] = []
        paired = pairs.run_pairs(
            lambda: _round(address, "esqueue/benchmarks/BENCH", count, ours),
            lambda: _round(address, "bare", count, theirs),
            quick=ground.quick,
        )
        stored = rig.value("SELECT count(DISTINCT message_id) FROM integration_outboxrow")
        receipts = rig.value("SELECT count(*) FROM integration_receipt")
    # The first round of each warms the processes up.
    took = [seconds for each in ours[1:] for seconds in each.took]
    p99 = percentile(took, 0.99)
    sent = len(ours) * count
    return Figure(
        name="esqueue_intake",
        value=paired.value,
        unit="posts/s",
        n=len(took),
        ratio=paired.ratio,
        against="a bare view of the same project that inserts one row",
        target=at_least("ratio", 0.6),
        claims={
            "p99 below 250 ms": p99 < P99_SECONDS,
            "every post was answered 202": all(each.statuses == {b"202"} for each in ours + theirs),
            "every post is in the outbox, with a receipt": stored == receipts == sent,
        },
        facts={
            **paired.facts,
            "p99_ms": round(p99 * 1_000, 1),
            "median_ms": round(percentile(took, 0.5) * 1_000, 1),
        },
    )


def _ready(rig: Rig) -> str:
    """The shipped web server with the bare view beside it; returns its address."""
    rig.topic(QUEUE)
    rig.configure(
        {
            "name": QUEUE,
            "topic": QUEUE,
            "kind": "continuous",
            "interface": "BENCH",
            "enabled": False,
        }
    )
    rig.write(_TABLE)
    rig.write(_ADMIT, [TOKEN.rpartition("_")[0], hashlib.sha256(TOKEN.encode()).hexdigest()])
    return rig.start_web({"DJANGO_SETTINGS_MODULE": "bench.app.bare_settings"})


def _round(address: str, path: str, count: int, rounds: list[posting.Posted]) -> float:
    """One round of posts; their number a second."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    requests = [posting.request(f"/{path}", _body(n), headers) for n in range(count)]
    posted = posting.post_all(address, requests, SENDERS)
    rounds.append(posted)
    return posted.rate


def _body(number: int) -> bytes:
    return json.dumps({"assetnum": f"A-{number}", "description": "x" * 250}).encode()
