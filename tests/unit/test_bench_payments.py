"""The payment run's own parts: its plan, what it compares, and its verdict."""

import pytest

from bench.payments import accounting
from bench.payments.plan import planned

pytestmark = pytest.mark.fast

A_LINE = {
    **dict.fromkeys(accounting.NOUGHT, 0),
    "kills": 9,
    "by_kafka": 100,
    "left_over": {},
    "reconciled": {"read": 101, "sent": 101, "rejected": 0, "skipped": 0, "fates": {}},
}


def test_half_of_the_payments_go_by_each_door_and_repeats_by_both():
    plan = planned(1_000, "1")
    doors = plan.by_kafka, plan.by_jms
    first = [{sent.payment for sent in door if sent.why != "repeat"} for door in doors]
    assert [len(each) for each in first] == [500, 500]
    assert first[0] | first[1] == plan.payments
    repeats = [[sent for sent in door if sent.why == "repeat"] for door in doors]
    assert len(repeats[0] + repeats[1]) == plan.repeats
    # As it was, under another message id, and by the other door: of each there is some.
    for door, others in zip(repeats, reversed(first), strict=True):
        assert {sent.message_id == sent.payment for sent in door} == {True, False}
        assert 0 < len({sent.payment for sent in door} & others) < len(door)


def test_the_same_seed_makes_the_same_plan_but_for_ids_of_repeats():
    one, same, other = planned(300, "1"), planned(300, "1"), planned(300, "2")
    assert [sent.value for sent in one.by_jms] == [sent.value for sent in same.by_jms]
    assert [sent.value for sent in one.by_jms] != [sent.value for sent in other.by_jms]


def test_what_is_missing_too_often_or_nobodys_is_found():
    wanted = frozenset({"a", "b", "c"})
    found = accounting.compare(wanted, {"a": 1, "b": 2}, {"a": 1, "c": 2, "x": 1})
    assert found == {
        "charged_twice": ["b"],
        "not_charged": ["c"],
        "notified_twice": ["c", "x"],
        "not_notified": ["b"],
    }


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        *(({name: 1}, name) for name in accounting.NOUGHT),
        ({"kills": 0}, "nothing was killed"),
        ({"left_over": {"leases": 2}}, "2 leases left over"),
        ({"reconciled": A_LINE["reconciled"] | {"rejected": 1}}, "reconciled"),
        ({"reconciled": A_LINE["reconciled"] | {"skipped": 1}}, "reconciled"),
        ({"reconciled": A_LINE["reconciled"] | {"read": 99}}, "reconciled"),
    ],
)
def test_a_line_is_good_only_if_nothing_is_wrong(changes, what):
    assert accounting.shortcomings(A_LINE) == []
    [wrong] = accounting.shortcomings(A_LINE | changes)
    assert what in wrong
