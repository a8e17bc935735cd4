"""The benchmarks' own parts: figures, pairs, messages, and that both sides read by one rule."""

import csv
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from bench import handwritten, pairs, stacks, workload
from bench.cases import bulk_imports
from bench.cases.failing import FAILING_EACH, one_percent
from bench.catalogue import BENCHMARKS, PEERS
from bench.facts import percentile
from bench.figure import Figure, at_least, below
from bench.smoke import outbound, plan
from integration import envelope

pytestmark = pytest.mark.fast
DOCS = Path(__file__).parent.parent.parent / "docs" / "benchmarks.md"


def a_figure(**fields) -> Figure:
    return Figure(**{"name": "x", "value": 10.0, "unit": "msg/s", "n": 5, **fields})


@pytest.mark.parametrize(
    ("target", "fields", "is_ok"),
    [
        (at_least("ratio", 0.75), {"ratio": 0.75}, True),
        (at_least("ratio", 0.75), {"ratio": 0.749}, False),
        (at_least("ratio", 0.75), {"ratio": None}, False),
        (below("value", 10), {"value": 10.0}, False),
        (below("value", 10), {"value": 9.99}, True),
        (None, {}, True),
    ],
)
def test_a_target_is_reached_or_missed(target, fields, is_ok):
    assert a_figure(target=target, **fields).is_ok is is_ok


def test_a_claim_that_fails_misses_the_figure_and_is_named():
    figure = a_figure(claims={"25 held": True, "0 stale keys": False})
    assert not figure.is_ok
    assert json.loads(figure.line())["missed"] == ["0 stale keys"]


def test_a_run_that_stood_still_misses_the_figure_whatever_the_median_says():
    ours, theirs = iter([9, 100, 90, 4, 110, 95]), iter([100] * 6)
    paired = pairs.run_pairs(lambda: next(ours), lambda: next(theirs), quick=False)
    assert paired.stalled == [4]
    figure = a_figure(ratio=paired.ratio, target=at_least("ratio", 0.8), facts=paired.facts)
    assert figure.ratio == 0.95
    assert not figure.is_ok
    assert json.loads(figure.line())["missed"] == ["no run stood still"]


def test_a_line_is_one_json_object_with_the_five_agreed_names():
    line = a_figure(ratio=0.8123, against="a loop", target=at_least("ratio", 0.8)).line()
    assert "\n" not in line
    told = json.loads(line)
    assert [told[name] for name in ("name", "value", "unit", "ratio", "against")] == [
        "x",
        10.0,
        "msg/s",
        0.812,
        "a loop",
    ]
    assert told["ok"] is True


def test_pairs_alternate_after_one_unmeasured_pair_and_give_the_median_of_the_ratios():
    order: list[str] = []
    rates = {"ours": iter([99, 10, 40, 30, 10, 20]), "theirs": iter([1, 10, 20, 30, 40, 50])}

    def side(name: str) -> float:
        order.append(name)
        return next(rates[name])

    found = pairs.run_pairs(lambda: side("ours"), lambda: side("theirs"), quick=False)
    assert len(found.ratios) == pairs.PAIRS
    assert found.ratios == [1.0, 2.0, 1.0, 0.25, 0.4]
    assert found.ratio == 1.0
    assert found.value == 20
    rounds = [tuple(order[place : place + 2]) for place in range(2, len(order), 2)]
    assert all(first == second[::-1] for first, second in pairwise(rounds))


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10)])
def test_a_percentile_is_a_value_of_the_sample(share, expected):
    assert percentile([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], share) == expected


def test_messages_have_300_bytes_also_those_that_fail_and_are_the_same_each_time():
    plain = list(workload.assets(200, 50))
    failing = list(workload.with_failures(200, 50, {7: "once", 8: "always"}))
    assert {len(payload) for payload in (*plain, *failing)} == {workload.MESSAGE_BYTES}
    assert plain == list(workload.assets(200, 50))
    assert json.loads(failing[7])["fails"] == "once"
    assert [n for n in range(200) if plain[n] != failing[n]] == [7, 8]


def test_five_percent_are_picked_by_a_seed():
    picked = workload.pick(20_000, 0.05, seed=1)
    assert 900 < len(picked) < 1_100
    assert picked == workload.pick(20_000, 0.05, seed=1)
    assert picked != workload.pick(20_000, 0.05, seed=2)


def test_one_percent_are_half_once_and_half_always():
    kinds = list(one_percent(5_000).values())
    assert (kinds.count("once"), kinds.count("always")) == (FAILING_EACH, FAILING_EACH)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1.10, "b": [1, 2, {"c": "d"}]}',
        '{"a": 1e3, "b": -0.0}',
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 12345678901234567890.12345678901234567890}',
        '{"a": 1',
    ],
)
def test_the_hand_written_side_refuses_and_reads_what_sluice_refuses_and_reads(text):
    ours = envelope.read(text.encode())
    try:
        theirs = handwritten.parse(text)
    except ValueError:
        assert isinstance(ours, envelope.Flaw)
    else:
        assert not isinstance(ours, envelope.Flaw)
        assert repr(ours.body) == repr(theirs)


def test_both_sides_write_the_same_exact_numbers():
    row = workload.row_of(handwritten.parse(workload.asset(3, 10).decode()))
    assert isinstance(row[4], Decimal)
    assert isinstance(row[5], Decimal)


def test_the_plans_hold_what_they_say():
    strict, loose = plan.sequential(5_000), plan.continuous(5_000)
    assert (strict.messages + loose.messages, strict.expected_held) == (10_000, 0)
    assert sorted(map(str, strict.failing.values())) == ["2"] * 10 + ["3"] * 6
    assert loose.expected_held == 50
    assert json.loads(loose.payload(11))["fails"] == "always"
    assert json.loads(loose.payload(12)) == {"seq": 12}


def test_samples_are_summed_by_line_and_by_function(tmp_path):
    (tmp_path / "stacks-1.txt").write_text(
        "a.py:1:main;run.py:5:run;x.py:7:f 3\na.py:1:main;run.py:6:run;x.py:8:f 2\nb.py:1:idle 9\n"
    )
    own, whole = stacks.read(tmp_path, "run.py")
    assert own == {"x.py:7:f": 3, "x.py:8:f": 2}
    assert whole == {"run.py:run": 5, "x.py:f": 5}


def test_the_guide_describes_every_benchmark():
    described = {
        line.split("`")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")
    }
    assert described == {*BENCHMARKS, *PEERS}


def test_every_tenth_message_of_the_strict_queue_publishes_and_some_of_them_fail_before():
    strict = plan.sequential(5_000)
    assert len(strict.publishing) == 500
    assert json.loads(strict.payload(10)) == {"seq": 10, "publishes": outbound.CHANNEL}
    assert "publishes" not in json.loads(strict.payload(11))
    assert set(strict.publishing) & set(strict.failing)
    assert not plan.continuous(5_000).publishing


@pytest.mark.parametrize(
    ("published", "received", "posts", "wrong"),
    [
        ({"a": 0, "b": 10, "c": 20}, "abc", 3, (0, 0, 0, 0)),
        ({"a": 0, "b": 10, "c": 20}, "abc", 5, (0, 0, 0, 2)),
        ({"a": 0, "b": 10}, "ab", 2, (1, 0, 0, 0)),
        ({"a": 0, "b": 10, "c": 20}, "ac", 2, (1, 0, 0, 0)),
        ({"a": 0, "b": 10, "c": 20}, "acb", 3, (0, 0, 2, 0)),
        ({"a": 0, "b": 10, "c": 20, "d": 20}, "abcd", 4, (0, 1, 0, 0)),
        ({"a": 0, "b": 10, "c": 20}, "abcx", 4, (0, 1, 0, 0)),
    ],
)
def test_what_the_partner_has_is_compared_with_what_was_published(
    published, received, posts, wrong
):
    found = outbound.compare([0, 10, 20], published, list(received), posts)
    assert (found.lost, found.doubled, found.out_of_order, found.repeated) == wrong
    assert (found.published, found.received) == (len(published), len(received))


def test_what_warms_both_sides_replaces_the_unmeasured_pair():
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return 1.0

    found = pairs.run_pairs(
        lambda: side("ours"),
        lambda: side("theirs"),
        quick=False,
        pairs=2,
        warm=lambda: order.append("warm"),
    )
    assert order == ["warm", "theirs", "ours", "ours", "theirs"]
    assert found.ratios == [1.0, 1.0]


def test_files_of_rows_have_each_key_once_and_so_many_bad_rows(tmp_path):
    folder = workload.csv_files(tmp_path / "rows", 1_050, 4)
    files = sorted(folder.iterdir())
    tables = [list(csv.DictReader(file.open(newline=""))) for file in files]
    rows = [row for table in tables for row in table]
    assert (len(files), len(rows)) == (4, 1_050)
    assert len({row["assetnum"] for row in rows}) == 1_050
    found = bulk_imports.Source(folder, 1_050)
    assert sum(not row["siteid"] for row in rows) == found.bad == 11
    assert found.good + found.bad == 1_050
