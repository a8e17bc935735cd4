"""The run over the bridges: its accounting and its verdict."""

import pytest

from bench import jms_client
from bench.bridges import accounting
from bench.bridges.run import Plan

pytestmark = pytest.mark.fast

A_LINE = {**dict.fromkeys(accounting.NOUGHT, 0), "kills": 50, "left_over": {}}
SENT = [
    f'text {{"n": {n}}} | {{far=Long 1099511627776, number=Integer {n}}} | c{n} | ORDER'
    f" | ActiveMQQueue[answers] | g{n % 2} | priority 7 | mode 2"
    for n in range(6)
]
NOTHING = {name: [] for name in accounting.NOUGHT}


def test_what_came_as_it_was_sent_is_right_in_whatever_order_groups_are_mixed():
    assert accounting.compare(SENT, SENT) == NOTHING
    assert accounting.compare(SENT, SENT[1::2] + SENT[::2]) == NOTHING


@pytest.mark.parametrize(
    ("received", "wrong"),
    [
        (SENT[:3] + SENT[4:], {"lost": [3]}),
        ([*SENT, SENT[2]], {"doubled": [2], "out_of_order": [4]}),
        ([*SENT, SENT[5]], {"doubled": [5]}),
        ([*SENT, SENT[0].replace("Integer 0", "Integer 8")], {"doubled": [8]}),
        ([SENT[2], SENT[0], *SENT[3:], SENT[1]], {"out_of_order": [2, 5]}),
        ([SENT[0].replace("text", "bytes"), *SENT[1:]], {"changed": [0]}),
        ([*SENT[:5], SENT[5].replace("Long", "Integer")], {"changed": [5]}),
        ([*SENT[:5], SENT[5].replace("priority 7", "priority 4")], {"changed": [5]}),
        ([*SENT, "bytes  | {} | null | null"], {"doubled": [-1]}),
    ],
    ids=["lost", "again", "at once", "strange", "order", "kind", "type", "priority", "unnamed"],
)
def test_what_is_lost_doubled_changed_or_out_of_order_is_found(received, wrong):
    assert accounting.compare(SENT, received) == NOTHING | wrong


def test_a_message_is_told_by_a_line_and_what_was_sent_again_by_another():
    output = "\n".join([SENT[0], "sent again: Connection failure detected", "WARN", SENT[1]])
    assert jms_client.told(output) == SENT[:2]
    assert jms_client.sent_again(output) == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        *(({name: 1}, name) for name in accounting.NOUGHT),
        ({"kills": 49}, "49 kills instead of 50"),
        ({"left_over": {"leases": 2}}, "2 leases left over"),
    ],
)
def test_a_line_is_good_only_if_nothing_is_wrong(changes, what):
    assert accounting.shortcomings(A_LINE, 50) == []
    [wrong] = accounting.shortcomings(A_LINE | changes, 50)
    assert what in wrong


def test_messages_are_sent_for_as_long_as_the_kills_last():
    assert Plan(count=600, kills=50, seed="1").seconds == 250
    assert Plan(count=60_000, kills=50, seed="1").seconds == 500
