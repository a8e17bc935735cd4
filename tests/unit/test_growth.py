"""No text from outside takes more than linear time: every pattern and parser of the product."""

import fnmatch
import gzip
import importlib
import json
import pkgutil
import re
import types
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration import envelope
from integration.envelope.document import Limits
from tests.support.growth import slow_parser, slow_pattern
from tests.support.patterns import collect

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PRODUCT = ("integration", "crontasks", "console", "spark_jobs", "sample", "config")
ROOMY = Limits(max_bytes=2**26)


def modules() -> Iterator[Any]:
    for room in PRODUCT:
        for found in pkgutil.walk_packages([str(ROOT / room)], prefix=f"{room}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def sources() -> dict[str, str]:
    files = [file for room in PRODUCT for file in sorted((ROOT / room).rglob("*.py"))]
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


# What the source alone does not tell: an example of the pattern, or None where none is run on a
# text from outside, with the reason.
UNTOLD: dict[str, re.Pattern[Any] | None] = {
    # One prefix, escaped, of a list of settings.
    "config/env.py:_split:split": re.compile(rf"[\n,]\s*(?={re.escape('PLAIN://')})"),
    # The name of the element that a record is.
    "spark_jobs/imports/xml_reading.py:_start:compile": re.compile(
        rb"<(?:[\w.\-]+:)?" + re.escape(b"Asset") + rb"[\s/>]"
    ),
    # PostgreSQL runs it, on names that have at most a hundred characters.
    "integration/actions/tokens.py:_line:filter": re.compile(rf"^{re.escape('a-b')}(-\d+)?$"),
    # Files that people ask for, on names of files that people have uploaded.
    "crontasks/bulk/uploads.py:module:fnmatch": re.compile(fnmatch.translate("a*b*c*[0-9]*x")),
    # RE2, which is linear in the text for every pattern.
    "integration/documents/patterns.py:module:re2": None,
}


def test_no_pattern_takes_more_than_linear_time() -> None:
    found = collect(modules(), sources())
    assert found.untold == set(UNTOLD)
    for where, pattern in UNTOLD.items():
        if pattern is not None:
            found.add(pattern, where, {"search", "split"})
    slow = {}
    for (pattern, flags), (where, methods) in found.patterns.items():
        if told := slow_pattern(re.compile(pattern, flags), sorted(methods)):
            slow[where] = told
    assert not slow


PLANTED = """
import re
import re as other
from re import compile as made
from regex import search

SLOW = r"{0}"
AT_MODULE = re.compile(SLOW + "1")
IN_A_TABLE = {{"a": (re.compile(SLOW + "2", re.I),)}}


class Rule:
    OF_A_CLASS = re.compile(SLOW + "3")

    def of_a_method(self, text):
        return re.compile("{0}4", re.VERBOSE | re.S).sub("", text)


def of_a_function(text, pattern):
    return re.fullmatch(r"{0}5", text, flags=re.ASCII), re.split("{0}6", text)


def at_run_time(text, pattern):
    return re.search(pattern, text), Thing.objects.filter(name__iregex=text), RegexValidator(text)
"""


def test_every_pattern_is_found_wherever_it_is_planted() -> None:
    source = PLANTED.format("(a+)+")
    planted = types.ModuleType("planted")
    exec(source.replace("from regex import search", ""), vars(planted))
    found = collect([planted], {"planted.py": source})
    assert {pattern for pattern, _ in found.patterns} == {f"(a+)+{n}" for n in range(1, 7)}
    flags = {pattern[-1]: flags for pattern, flags in found.patterns}
    assert (flags["2"] & re.I, flags["4"] & re.S, flags["5"] & re.A) == (re.I, re.S, re.A)
    methods = {pattern[-1]: methods for (pattern, _), (_, methods) in found.patterns.items()}
    assert ({"fullmatch"}, {"split"}) == (methods["5"], methods["6"])
    assert found.untold == {
        "planted.py:module:re",
        "planted.py:module:regex",
        "planted.py:at_run_time:search",
        "planted.py:at_run_time:filter",
        "planted.py:at_run_time:RegexValidator",
    }
    for (pattern, flags_), (_, methods_) in found.patterns.items():
        assert slow_pattern(re.compile(pattern, flags_), sorted(methods_)), pattern


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(?:\s+|x)*y", "match"),
        (r"(a+)+b", "search"),
        (r"\s+$", "search"),
        (r"\d+\d+$", "fullmatch"),
        (r"[^,]*,[^,]*;", "search"),
        (r"'(?:[^'\\]|\\.)*'", "sub"),
    ],
)
def test_a_slow_pattern_is_found(pattern: str, method: str) -> None:
    assert slow_pattern(re.compile(pattern), [method])


@pytest.mark.parametrize("pattern", [r"\s*+y", r"[A-Z]{3}-\d+", r"(?:[a-z]+,)*+;", r"\s+"])
def test_a_linear_pattern_is_not_suspected(pattern: str) -> None:
    assert not slow_pattern(re.compile(pattern), ["match"])


def test_a_quadratic_loop_is_found() -> None:
    def parse(text: bytes) -> list[int]:
        seen: list[int] = []
        for at in range(0, len(text), 40):
            if at not in seen:
                seen.append(at)
        return seen

    assert slow_parser(parse, lambda n: b" " * n * 4)


def keys(n: int) -> bytes:
    return ("{" + ",".join(f'"k{place}":1' for place in range(n)) + ',"last":1,"last":2}').encode()


def equal_keys(n: int) -> bytes:
    return ("{" + ",".join(['"k":1'] * n) + "}").encode()


def members(n: int) -> bytes:
    packed = gzip.compress(b" ", mtime=0) * n
    return json.dumps(
        {"INTERFACE": "A", "compressed": "1", "payload": b64encode(packed).decode()}
    ).encode()


def wrapped(text: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def enveloped(n: int) -> bytes:
        return json.dumps({"INTERFACE": "A", "payload": text(n).decode()}).encode()

    return enveloped


TEXTS: dict[str, Callable[[int], bytes]] = {
    "blanks": lambda n: b" " * n,
    "blanks before a document type": lambda n: b" " * n + b"<a/><!DOCTYPE a>",
    "lines before a document type": lambda n: b"<?a?>" + b"\n" * n + b"<a/><!DOCTYPE a>",
    "comments": lambda n: b"<!-- -->" * n + b"<a/><!DOCTYPE a>",
    "comments that never end": lambda n: b"<!--" * n + b"<!DOCTYPE a>",
    "instructions": lambda n: b"<?a?>" * n + b"<a/><!DOCTYPE a>",
    "instructions that never end": lambda n: b"<?" * n + b"<!DOCTYPE a>",
    "elements": lambda n: b"<a>" + b"<b/>" * n + b"</a>",
    "open elements": lambda n: b"<a>" * n,
    "attributes": lambda n: b"<a " + b" ".join(b'k%d="1"' % i for i in range(n)) + b"/>",
    "references": lambda n: b"<a>" + b"&lt;" * n + b"</a>",
    "brackets": lambda n: b"[" * n,
    "closed brackets": lambda n: b"[" + b"[]," * n + b"1]",
    "braces": lambda n: b'{"a":' * n,
    "escapes": lambda n: b'{"a":"' + b"\\u0041" * n + b'"}',
    "surrogates": lambda n: b'{"a":"' + b"\\ud83d\\ude00" * n + b'"}',
    "lone surrogates": lambda n: b'{"a":"' + b"\\ud83d" * n + b'"}',
    "backslashes": lambda n: b'{"a":"' + b"\\\\" * n,
    "quotes": lambda n: b'"' * n,
    "digits": lambda n: b'{"a":' + b"1" * n + b"}",
    "fraction": lambda n: b'{"a":1.' + b"1" * n + b"}",
    "Base64": lambda n: b"QUJD" * n,
    "Base64 lines": lambda n: b"QUJD\n" * n + b"!",
    "keys, the last one twice": keys,
    "equal keys": equal_keys,
}
ENVELOPED = {f"{name}, in an envelope": wrapped(text) for name, text in TEXTS.items()}


@pytest.mark.parametrize("name", [*TEXTS, *ENVELOPED, "gzip members"])
def test_reading_takes_linear_time(name: str) -> None:
    text = {**TEXTS, **ENVELOPED, "gzip members": members}[name]
    assert not slow_parser(lambda source: envelope.read(source, None, ROOMY), text)
