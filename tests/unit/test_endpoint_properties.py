"""Properties of endpoints: read from lines and written back, judged, never a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.endpoint_properties import MAX_PROPERTIES, from_lines, mistakes, to_lines

pytestmark = pytest.mark.fast

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,20}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_what_is_written_is_read_back(properties):
    assert from_lines(to_lines(properties)) == properties


@pytest.mark.parametrize(
    ("lines", "told"), [("url", "not written as name = value"), ("a = 1\na = 2", "given twice")]
)
def test_what_is_no_property_is_told(lines, told):
    with pytest.raises(ValueError, match=told):
        from_lines(lines)


@pytest.mark.parametrize(
    "name",
    ["password", "db_passwd", "API-Key", "apikey", "auth.token", "Client_Secret", "private_key"],
)
def test_a_name_of_a_secret_is_refused(name):
    found = mistakes("http", {"url": "https://a.example", name: "x"})
    assert len(found) == 1
    assert "looks like a secret" in found[0]


@pytest.mark.parametrize(
    ("handler_type", "properties", "told"),
    [
        ("http", {"url": "ftp://a.example"}, "begins with http"),
        ("http", {"url": "http://[half"}, "begins with http"),
        ("http", {"url": "https://user:pass@a.example"}, "must not hold a user"),
        ("http", {"url": "https://a.example", "method": "DANCE"}, "must be one of POST"),
        ("http", {"url": "https://a.example", "timeout_seconds": True}, "number of seconds"),
        ("http", {"url": "https://a.example", "timeout_seconds": 0}, "number of seconds"),
        ("file", {"folder": " "}, "must be a text"),
        ("database", {"table": "t"}, "database is missing"),
        ("python", {"function": "not a path"}, "import path"),
        ("python", {"function": "a.b", "with blank": 1}, "is no name"),
        ("python", {"function": "a.b", "long": "x" * 3_000}, "longer than"),
        ("python", {"function": "a.b", **{f"n{i}": 1 for i in range(MAX_PROPERTIES)}}, "more than"),
        ("python", ["function"], "names with values"),
    ],
)
def test_what_cannot_be_kept_is_told(handler_type, properties, told):
    found = mistakes(handler_type, properties)
    assert any(told in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("handler_type", "properties"),
    [
        ("http", {"url": "https://a.example/in", "method": "PUT", "timeout_seconds": 2.5}),
        ("file", {"folder": "/out", "passage": "east"}),
        ("database", {"database": "erp", "table": "inbox"}),
        ("python", {"function": "plant.delivery.send"}),
        ("later", {}),
    ],
)
def test_what_is_right_is_kept(handler_type, properties):
    assert mistakes(handler_type, properties) == []
