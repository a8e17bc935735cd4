"""For any input: reading never raises, and what was written is read back."""

import json
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from integration.envelope import Alike, Document, Flaw, FlawCode, Limits, Outgoing, read, write
from integration.envelope.json_text import is_deeper

pytestmark = pytest.mark.fast

# NUL is the one character that JSON can write and the database cannot hold.
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
SCALARS = st.booleans() | st.integers() | NAMES
TREES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
BODIES = TREES.filter(lambda tree: tree is not None)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["sluice-interface", "SLUICE-USER", "INTERFACE", "MEAMessageID", "x", ""]),
        st.none() | st.binary(max_size=20),
    ),
    max_size=5,
)
FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *(
                b"{",
                b"}",
                b"[",
                b"]",
                b'"',
                b"\\",
                b"\\u",
                b"d800",
                b":",
                b",",
                b"1e9",
                b"NaN",
                b"\0",
            ),
            *(b'"payload":', b'"INTERFACE":"A",', b'"compressed":"1",', b'"eJw="', b'"H4s="'),
            *(b"<", b"<a>", b"</a>", b"<!DOCTYPE", b"<!--", b"&x;", b"&#0;", b"<?xml"),
            *(b"\xff\xfe", b"\xef\xbb\xbf"),
        ]
    ),
    max_size=30,
).map(b"".join)


def is_verdict(found: object) -> bool:
    return isinstance(found, Document | Flaw)


@given(value=st.binary(max_size=200) | FRAGMENTS, headers=st.none() | HEADERS)
@example(value=b"{" * 5000, headers=None)
@settings(max_examples=300)
def test_any_bytes_come_to_a_document_or_a_flaw(value, headers):
    found = read(value, headers)
    assert is_verdict(found)
    if isinstance(found, Document):
        assert isinstance(found.payload, bytes | str)


@given(payload=st.text(max_size=60) | st.binary(max_size=60).map(repr), mark=TREES)
def test_any_payload_in_an_envelope_comes_to_a_document_or_a_flaw(payload, mark):
    record = json.dumps({"INTERFACE": "A", "payload": payload, "compressed": mark}).encode()
    assert is_verdict(read(record))


@given(body=BODIES, cut=st.integers(0, 400))
def test_a_truncated_object_is_never_taken_for_a_whole_one(body, cut):
    record = json.dumps({"a": body}).encode()
    found = read(record[: min(cut, len(record) - 1)])
    assert isinstance(found, Flaw)
    assert found.code in {FlawCode.TRUNCATED_JSON, FlawCode.EMPTY_BODY}


@given(
    body=BODIES,
    names=st.lists(NAMES.filter(bool), min_size=5, max_size=5),
    user=st.none() | NAMES.filter(bool),
    compress=st.none() | st.booleans(),
    as_bytes=st.booleans(),
)
def test_what_is_written_is_read_back(body, names, user, compress, as_bytes):
    text = json.dumps(body, ensure_ascii=False)
    interface, sender, destination, topic, message_id = names
    message = Outgoing(
        interface=interface,
        sender=sender,
        destination=destination,
        topic=topic,
        message_id=message_id,
        payload=text.encode() if as_bytes else text,
        user=user,
    )
    found = read(write(message, compress=compress))
    assert isinstance(found, Document)
    assert (found.body, found.wrapped, found.mimetype) == (body, True, "application/json")
    assert (found.interface, found.sender, found.destination) == (interface, sender, destination)
    assert (found.message_id, found.user) == (message_id, user)
    payload = found.payload if isinstance(found.payload, str) else found.payload.decode()
    assert payload == text


@given(body=BODIES, indent=st.none() | st.integers(0, 2), ascii_only=st.booleans())
def test_a_payload_given_as_an_object_keeps_its_exact_text(body, indent, ascii_only):
    text = json.dumps(body, indent=indent, ensure_ascii=ascii_only)
    before, after = json.dumps({"z": body})[1:-1], json.dumps({"y": body})[1:-1]
    if isinstance(body, str):
        return  # a string is the text of a payload, not a value in its own right
    found = read(f'{{{before}, "INTERFACE": "A", "payload" : {text} , {after}}}'.encode())
    assert isinstance(found, Document)
    assert (found.payload, found.body) == (text, body)


@given(number=st.decimals(allow_nan=False, allow_infinity=False))
def test_numbers_keep_every_digit(number):
    assume(abs(number.adjusted()) <= 4300)
    text = str(number)
    found = read(text.encode())
    assert isinstance(found, Document)
    exact = int(text) if text.removeprefix("-").isdigit() else number
    assert (type(found.body), str(found.body)) == (type(exact), str(exact))


def depth_of(tree: object) -> int:
    if isinstance(tree, dict):
        return 1 + max(map(depth_of, tree.values()), default=0)
    if isinstance(tree, list):
        return 1 + max(map(depth_of, tree), default=0)
    return 0


@given(tree=TREES, limit=st.integers(1, 6))
def test_the_depth_scan_agrees_with_counting(tree, limit):
    text = json.dumps(tree)
    assert is_deeper(text, limit) == (depth_of(tree) > limit)
    found = read(text.encode(), None, Limits(max_depth=limit))
    assert (isinstance(found, Flaw) and found.code == FlawCode.TOO_DEEP) == (depth_of(tree) > limit)


@given(
    names=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES),
    texts=st.lists(
        st.tuples(
            NAMES,
            st.dictionaries(NAMES, SCALARS).map(json.dumps)
            | st.sampled_from(['{"é": "\u2028"}', "<A/>", ' {"a": 1}', "[1]", ""])
            | st.integers(1_000, 1_030).map(lambda size: f'{{"a":"{"x" * size}"}}'),
        ),
        max_size=4,
    ),
    user=st.none() | NAMES,
)
def test_messages_that_are_alike_are_written_as_each_alone(names, texts, user):
    interface, sender, destination, topic, payload = names
    like = Outgoing(
        interface=interface,
        sender=sender,
        destination=destination,
        topic=topic,
        message_id="-",
        payload=payload,
        user=user,
    )
    alike = Alike(like)
    for message_id, text in texts:
        alone = write(replace(like, message_id=message_id, payload=text))
        assert alike.write(message_id, text) == alone
