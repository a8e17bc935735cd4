"""The chaos run's own parts: its messages, its person, what it compares, and its verdict."""

import json
import random

import pytest

from bench.chaos import accounting, duty, plan, reading, replies, verdict
from bench.chaos.producing import Fate, Ledger
from bench.chaos.reading import Entry
from bench.faults.cards import Deck
from integration.envelope import read

pytestmark = pytest.mark.fast


def a_line(**fields) -> dict[str, object]:
    line = {
        **dict.fromkeys(verdict.NOUGHT, 0),
        **dict.fromkeys(verdict.ACTIONS, 1),
        "sent": 9,
        "seconds": verdict.WHOLE_SECONDS,
        "faults": dict.fromkeys(verdict.FAULTS, 1),
        "failures": dict.fromkeys(verdict.FAILURES, 1),
    }
    return {**line, **fields}


def test_a_deck_deals_every_kind_before_any_comes_again():
    deck = Deck(random.Random(1), {"a": 2, "b": 1})
    assert all(sorted(deck.draw() for _ in range(3)) == ["a", "a", "b"] for _ in range(9))


def test_a_kind_that_cannot_be_used_now_comes_later():
    deck = Deck(random.Random(1), {"a": 1, "b": 1})
    first = deck.draw()
    deck.put_back(first)
    assert [deck.draw(), deck.draw()] == [*({"a", "b"} - {first}), first]


def test_messages_are_numbered_within_their_queue_and_their_key():
    made = plan.Plan("1")
    bodies = [json.loads(made.message(plan.KEYED, "me", may_fail=False).payload) for _ in range(99)]
    assert [body["seq"] for body in bodies] == list(range(99))
    for key in {body["key"] for body in bodies}:
        numbers = [body["number"] for body in bodies if body["key"] == key]
        assert numbers == list(range(len(numbers)))


def test_who_waits_for_an_object_gets_it_by_another_message():
    made = plan.Plan("1")
    sent = [made.message(plan.KEYED, "me") for _ in range(plan.FAILING_EACH * 26)]
    needed = {body["needs"] for body in map(duty_document, sent) if body and "needs" in body}
    brought = [json.loads(m.payload)["brings"] for m, _ in made.arrivals("me", all_of_them=True)]
    assert needed
    assert sorted(brought) == sorted(needed)


def duty_document(sent: plan.Sent):
    return duty.Held("id", sent.payload, is_parked=False, blocks=False).document


def test_every_kind_of_failure_is_dealt():
    made = plan.Plan("1")
    sent = [made.message(plan.SHARED, "me") for _ in range(plan.FAILING_EACH * 26)]
    documents = [duty_document(each) for each in sent]
    assert any(document is None for document in documents)
    read = [document for document in documents if document is not None]
    assert any(document.get("INTERFACE") == plan.STRANGER for document in read)
    assert {document["fails"] for document in read if "fails" in document} >= {
        "always",
        "permanent",
    }
    for name in ("succeeds_at", "clashes_until", "needs", "publishes"):
        assert any(name in document for document in read)


def test_a_person_takes_out_what_makes_a_message_fail():
    text = json.dumps({"seq": 1, "fails": "always"}, indent=1)
    assert duty.has_to_be_edited(json.loads(text))
    assert json.loads(duty.mended(text)) == {"seq": 1}
    inside = json.dumps({"INTERFACE": plan.STRANGER, "payload": "{}"})
    assert not duty.has_to_be_edited(json.loads(duty.mended(inside)))


def test_a_reply_is_read_out_of_its_envelope():
    body = {"queue": "q", "seq": 3}
    for payload in (body, json.dumps(body)):
        assert reading.reply(json.dumps({"INTERFACE": "x", "payload": payload})) == ("q", 3)


def test_replies_that_are_missing_repeated_or_nobodys_are_found():
    expected = [("q", 1), ("q", 2), ("q", 3)]
    assert replies.once(expected, expected) == replies.Replies(3, 0, 0)
    found = replies.once(expected, [("q", 1), ("q", 1), ("q", 3), ("q", 9)])
    assert found == replies.Replies(3, 1, 2)


def test_posts_are_judged_by_the_order_of_their_rows():
    arrivals = {"order": ["a", "c", "b"], "posts": 5}
    assert replies.posted(["a", "b", "c", "d"], arrivals) == replies.Replies(0, 1, 0, 2)


def test_what_kafka_has_otherwise_than_senders_were_told_is_counted():
    book = [Entry("q", seq, "k", 0, seq) for seq in (1, 3, 4)]
    ledger = Ledger()
    ledger.fates = {
        ("q", 1): Fate.COMMITTED,
        ("q", 2): Fate.COMMITTED,
        ("q", 3): Fate.ABORTED,
        ("q", 5): Fate.UNSURE,
    }
    ledger.told = {("q", 2): "plain: 0@7"}
    # 2 is missing, 3 should not be there, nobody knows of 4.
    assert accounting.untrue(ledger, book) == [
        accounting.Untrue("q", 2, Fate.COMMITTED, 0, "plain: 0@7"),
        accounting.Untrue("q", 3, Fate.ABORTED, 1, ""),
        accounting.Untrue("q", 4, None, 1, ""),
    ]


def test_a_line_is_good_when_nothing_is_wrong_and_nothing_was_left_out():
    assert not verdict.shortcomings(a_line())


def test_the_codes_that_a_whole_run_must_have_are_those_of_what_it_sends():
    assert {read(payload, None).code for payload in plan.UNREADABLE} <= set(verdict.FAILURES)


@pytest.mark.parametrize("name", verdict.NOUGHT)
def test_whatever_is_wrong_spoils_the_line(name):
    assert verdict.shortcomings(a_line(**{name: 1}))


def test_a_whole_run_lacks_no_fault_failure_or_decision_and_a_short_one_may():
    lacking = {
        "faults": {**dict.fromkeys(verdict.FAULTS, 1), "kafka_killed": 0},
        "failures": {},
        "parked": 0,
    }
    assert len(verdict.shortcomings(a_line(**lacking))) == 2 + len(verdict.FAILURES)
    assert not verdict.shortcomings(a_line(**lacking, seconds=30))
    assert verdict.shortcomings(a_line(sent=0, seconds=30))
