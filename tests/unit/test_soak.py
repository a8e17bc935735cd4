"""The soak's own reckoning: what is published, what has grown, and which line is a good one."""

from itertools import islice
from typing import Any

import pytest

from bench.soak.holding import FEW, Grown, held
from bench.soak.plan import LINE, OUT, PLAIN, POSTED, SHARES, messages, published_to
from bench.soak.run import shortcomings

pytestmark = pytest.mark.fast


def a_line(**fields: Any) -> dict[str, Any]:
    nought = "lost", "doubled", "out_of_order", "out_lost", "out_doubled", "pages_failed", "refused"
    held = {"memory": 100.0}
    told = {"left_over": {}, "grown": [], "first": held, "last": held}
    return {**dict.fromkeys(nought, 0), **told, **fields}


def test_each_queue_gets_its_share():
    first = [message.queue for message in islice(messages(), 2 * sum(SHARES.values()))]
    assert {queue: first.count(queue) / 2 for queue in SHARES} == SHARES


def test_the_line_publishes_to_the_partner_and_the_others_to_the_topic():
    assert (published_to(LINE, 50), published_to(PLAIN, 50), published_to(PLAIN, 51)) == (
        POSTED,
        OUT,
        None,
    )


def test_memory_may_grow_by_a_twentieth_and_counts_by_few_more():
    before = {"memory": 100.0, "threads": 10.0}
    assert not Grown(before, {"memory": 105.0, "threads": 10.5 + FEW}).shortcomings()
    grown = Grown(before, {"memory": 105.1, "threads": 10.6 + FEW}).shortcomings()
    assert [words.split(" grew")[0] for words in grown] == ["memory", "threads"]


def test_memory_is_the_median_of_its_samples_and_all_else_the_most():
    samples = [{"memory": n, "locks": n} for n in (1.0, 9.0, 2.0)]
    assert held(samples) == {"memory": 2.0, "locks": 9.0}
    assert held([]) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"lost": 1},
        {"out_doubled": 1},
        {"refused": 1},
        {"grown": ["memory grew from 1 to 2"]},
        {"left_over": {"locks": 1}},
        {"first": {}},
    ],
)
def test_one_shortcoming_is_enough(fields: dict[str, Any]):
    assert not shortcomings(a_line())
    assert len(shortcomings(a_line(**fields))) == 1
