"""Shares of a batch: one key in one share, in order, and as even as keys allow."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.delivery.dealing import _joined, deal
from integration.policy.positions import untried
from tests.support.deliveries import a_unit

pytestmark = pytest.mark.fast


@given(
    st.lists(st.one_of(st.none(), st.sampled_from("abcdefgh")), min_size=1, max_size=60),
    st.integers(2, 9),
)
def test_each_message_is_in_one_share_and_each_key_too_in_the_order_of_the_log(keys, threads):
    units = [a_unit(offset) for offset in range(len(keys))]
    shares = deal(units, threads, keys)
    assert sorted(unit.at for share in shares for unit in share) == list(range(len(keys)))
    share_of = {}
    for number, share in enumerate(shares):
        offsets = [unit.at for unit in share]
        assert offsets == sorted(offsets)
        for offset in offsets:
            if keys[offset] is not None:
                assert share_of.setdefault(keys[offset], number) == number
    # No share has more than an even one and the messages of one key.
    most = max(Counter(key for key in keys if key is not None).values(), default=1)
    assert max(map(len, shares)) <= -(-len(keys) // threads) + most


def test_messages_without_a_key_are_spread_evenly():
    units = [a_unit(offset) for offset in range(80)]
    assert [len(share) for share in deal(units, 8, [None] * 80)] == [10] * 8


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c"])),
            st.one_of(st.none(), st.sampled_from(["x", "y", "z"])),
        ),
        max_size=20,
    )
)
def test_what_has_a_key_or_an_id_in_common_has_one_label(pairs):
    labels = _joined(pairs)
    for (key, id_), label in zip(pairs, labels, strict=True):
        assert (label is None) == (key is None and id_ is None)
        for (other_key, other_id), other in zip(pairs, labels, strict=True):
            if (key is not None and key == other_key) or (id_ is not None and id_ == other_id):
                assert label == other


def test_what_has_nothing_in_common_has_labels_of_its_own():
    assert len(set(_joined([(b"a", "x"), (b"b", "y"), (None, "z")]))) == 3
    assert len(set(_joined([(b"a", "x"), (b"b", "y"), (b"b", "x")]))) == 1


@given(st.integers(0, 9), st.integers(0, 9), st.sets(st.integers(0, 12)))
def test_what_is_untried_and_what_is_done_make_the_whole(first, after, done):
    ranges = list(untried(first, after, done))
    tried = [offset for a, b in ranges for offset in range(a, b)]
    assert tried == [offset for offset in range(first, after) if offset not in done]
    assert all(a < b for a, b in ranges)
