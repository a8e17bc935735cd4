"""The key of an object, read from its document or from the key of the record that deletes it."""

from dataclasses import dataclass
from typing import Any

import pytest

from integration.documents.structures import Entry, plan_for
from integration.policy.failure import Failure
from integration.testing import a_message

pytestmark = pytest.mark.fast


@dataclass(frozen=True)
class Deleting:
    key_paths: tuple[str, ...]
    name: str = "places"
    version_path: str = ""
    json_schema: Any = None
    tombstone: str = "delete"


def key_in(paths: tuple[str, ...], body: object, key: bytes | None = None) -> str:
    """The key, or the code of what is wrong with it."""
    entry = plan_for(Deleting(paths)).entry(a_message(body, key=key))
    if isinstance(entry, Failure):
        return entry.code
    assert isinstance(entry, Entry)
    return entry.key


@pytest.mark.parametrize(
    ("paths", "document", "key"),
    [
        (("$.place",), {"place": "HALL"}, b"HALL"),
        (("$.place",), {"place": "ABC       "}, b"ABC       "),
        (("$.place",), {"place": " A\n"}, b" A\n"),
        (("$.place",), {"place": 7}, b"7"),
        (("/P/place",), "<P><place> HALL </place></P>", b"HALL\n"),
        (("$.a", "$.b"), {"a": 7, "b": "x"}, b'[7.0, "x"]'),
        (("$.a", "$.b"), {"a": 100, "b": "x"}, b'["100","x"]'),
        (("$.a", "$.b"), {"a": 100, "b": "x"}, b' [1e2, "x"]\n'),
        (("$.a", "$.b"), {"a": "12345678901234567.5", "b": "x"}, b'[12345678901234567.5,"x"]'),
        (("$.a", "$.b"), {"a": "A  ", "b": "\u00fc"}, b'["A  ","\\u00fc"]'),
        (("/P/a", "/P/b"), "<P><a> 7 </a><b>x</b></P>", b'[7," x "]'),
    ],
)
def test_a_tombstone_names_the_object_that_its_document_has(
    paths: tuple[str, ...], document: object, key: bytes
) -> None:
    assert key_in(paths, None, key) == key_in(paths, document)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (b'["\\ud800","x"]', "BAD_KEY"),
        (b'["\\u0000","x"]', "BAD_KEY"),
        (b'[true,"x"]', "BAD_KEY"),
        (b'[null,"x"]', "BAD_KEY"),
        (b'[["a"],"x"]', "BAD_KEY"),
        (b'[" ","x"]', "BAD_KEY"),
        (b'["x"]', "BAD_KEY"),
        (b'{"a":"x"}', "BAD_KEY"),
        (b"<a/>", "BAD_KEY"),
        (b"[" * 5_000, "BAD_KEY"),
        (b'[NaN,"x"]', "BAD_KEY"),
        (b" ", "NO_KEY"),
        (b'[1e1100,"x"]', "KEY_TOO_LONG"),
    ],
)
def test_a_tombstone_with_another_key_than_a_document_can_have_is_held(
    key: bytes, code: str
) -> None:
    assert key_in(("$.a", "$.b"), None, key) == code
