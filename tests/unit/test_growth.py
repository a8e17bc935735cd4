"""No text from outside takes more than linear time: every pattern and parser of the product."""

import fnmatch
import gzip
import importlib.util
import json
import pkgutil
import re
import tempfile
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from crontasks.schedule import crontab
from integration import durations, envelope
from integration.documents.layout import laid_out
from integration.documents.structures import plan_for
from integration.endpoint_types.http.answers import after_seconds, excerpt_of, without
from integration.endpoints.templates import Template
from integration.envelope.document import Limits
from integration.errors import IntegrationError
from integration.http_api.bodies import check_type, pieces
from integration.http_api.receipts import Post
from integration.http_api.tokens import prefix_of
from integration.policy.failure import cause_words
from integration.recipes import compile_recipe
from integration.runs.statements import ends_transaction
from integration.selectors.failures.faults import places_of
from spark_jobs.contract import JobError
from spark_jobs.imports.cutting import Cut, cuts
from spark_jobs.imports.parameters import Format, ImportParameters, Structure
from spark_jobs.imports.reading import rows
from spark_jobs.imports.rows import Range
from spark_jobs.imports.xml_reading import Records
from tests.support.growth import FEWER_UNITS, TEXT_UNITS, slow_parser, slow_pattern
from tests.support.patterns import collect

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PRODUCT = ("integration", "crontasks", "console", "spark_jobs", "sample", "config", "sluice")
ROOMY = Limits(max_bytes=2**26)


def modules() -> Iterator[Any]:
    for room in PRODUCT:
        for found in pkgutil.walk_packages([str(ROOT / room)], prefix=f"{room}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def sources() -> dict[str, str]:
    files = [file for room in PRODUCT for file in sorted((ROOT / room).rglob("*.py"))]
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


# What the source alone does not tell: an example of the pattern, and how it is called; None where
# no text from outside meets it.
UNTOLD: dict[str, tuple[re.Pattern[Any], str] | None] = {
    # An installation's own settings, at its start: no text from outside.
    "sluice/variables.py:_pairs:split": None,
    # The name of the element that a record is.
    "spark_jobs/imports/xml_reading.py:_record_before:compile": (
        re.compile(rb"<(?:[\w.\-]+:)?" + re.escape(b"Asset") + rb"[\s/>]"),
        "finditer",
    ),
    # Run by PostgreSQL, on names of at most a hundred characters.
    "integration/actions/tokens.py:_family:filter": (
        re.compile(rf"^{re.escape('a-b')}(-\d+)?$"),
        "search",
    ),
    # Objects and uploads that people ask for, folder by folder.
    "spark_jobs/storage.py:module:fnmatch": (
        re.compile(fnmatch.translate("a*b*c*[0-9]*x")),
        "match",
    ),
    # RE2, which is linear in the text whatever the pattern.
    "integration/documents/patterns.py:module:re2": None,
}


def test_no_pattern_takes_more_than_linear_time() -> None:
    found = collect(modules(), sources())
    assert found.untold == set(UNTOLD)
    for where, example in UNTOLD.items():
        if example is not None:
            found.add(example[0], where, {example[1]})
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


def test_every_pattern_is_found_wherever_it_is_planted(tmp_path: Path) -> None:
    source = PLANTED.format("(a+)+")
    file = tmp_path / "planted.py"
    file.write_text(source.replace("from regex import search", ""))
    spec = importlib.util.spec_from_file_location("planted", file)
    assert spec is not None
    assert spec.loader is not None
    planted = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(planted)
    found = collect([planted], {"planted.py": source})
    assert {pattern for pattern, _ in found.patterns} == {f"(a+)+{n}" for n in range(1, 7)}
    said = {pattern[-1]: flags for pattern, flags in found.patterns}
    for number, flag in (("2", re.IGNORECASE), ("4", re.DOTALL), ("5", re.ASCII)):
        assert said[number] & flag
    methods = {pattern[-1]: methods for (pattern, _), (_, methods) in found.patterns.items()}
    assert ({"fullmatch"}, {"split"}) == (methods["5"], methods["6"])
    assert found.untold == {
        "planted.py:module:re",
        "planted.py:module:regex",
        "planted.py:at_run_time:search",
        "planted.py:at_run_time:filter",
        "planted.py:at_run_time:RegexValidator",
    }
    for (pattern, flags), (_, called) in found.patterns.items():
        assert slow_pattern(re.compile(pattern, flags), sorted(called)), pattern


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


@pytest.mark.parametrize("units", [TEXT_UNITS, FEWER_UNITS])
def test_a_quadratic_loop_is_found(units: int) -> None:
    # Thrice what passes for nothing in texts of this size, on a quick machine.
    def parse(text: bytes) -> list[int]:
        seen: list[int] = []
        for at in range(0, len(text), 22):
            if at not in seen:
                seen.append(at)
        return seen

    # A pause of the machine in the one look at the smaller text makes any growth seem small.
    assert any(slow_parser(parse, lambda n: b" " * n * 4, units) for _ in range(3))


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


# --- every other reader -------------------------------------------------------------------------

PARAMETERS = ImportParameters(
    source="f",
    format=Format.CSV,
    arrival=1,
    rejects_queue=1,
    structure=Structure(name="s", key_paths=("$.1",)),
)


@dataclass(frozen=True)
class Structured:
    """A structure as its row would be, with the costliest paths that are permitted."""

    key_paths: tuple[str, ...]
    name: str = "s"
    version_path: str = ""
    json_schema: Any = None
    tombstone: str = "hold"


PLANS = [
    plan_for(Structured(paths))
    for paths in (
        ("$..k[?@.x == '1' || !@.y]",),
        ("$[*].a[?@.b]",),
        ("//b[c='1' or not(a)]/text()",),
        ("/*/a/b[last()]/@k",),
    )
]


def judge(text: bytes) -> None:
    found = envelope.read(text, None, ROOMY)
    if isinstance(found, envelope.Flaw):
        return
    for plan in PLANS:
        plan.read(found.body)


def of_file(read: Callable[[Path, int], object]) -> Callable[[bytes], object]:
    def with_file(text: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(text)
            file.flush()
            read(Path(file.name), len(text))

    return with_file


def part_of(path: Path, cut: Cut) -> Range:
    begin, end, line, by_line = cut
    return Range(number=0, file=str(path), begin=begin, end=end, line=line, by_line=by_line)


def csv_rows(path: Path, size: int) -> None:
    with path.open("rb") as file:
        for cut in cuts(file, size, b'"', 50_000, lambda _: None):
            deque(rows(part_of(path, cut), PARAMETERS, 2), 0)


def json_lines(path: Path, size: int) -> None:
    lines = replace(PARAMETERS, format=Format.JSON_LINES)
    deque(rows(part_of(path, Cut(0, size, 1, by_line=False)), lines, 1), 0)


def xml_records(path: Path, _: int) -> None:
    deque(
        Records(str(path), replace(PARAMETERS, format=Format.XML, record="a")).rows(collect=True), 0
    )


READERS: dict[str, Callable[[bytes], object]] = {
    "the laying out": lambda text: laid_out(text.decode()),
    "the place of a fault": lambda text: places_of(text.decode(), [("k", "nowhere")]),
    "a post's messages": lambda text: pieces(
        Post(system_id=1, system="A", service="A", body=text, most_bytes=2**26)
    ),
    "a post's type": lambda text: check_type(text.decode()),
    "a token": lambda text: prefix_of(text.decode()),
    "Retry-After": lambda text: after_seconds(text.decode(), datetime(2026, 1, 1, tzinfo=UTC)),
    "a partner's answer": excerpt_of,
    "a secret in an answer": lambda text: without(text, ["[[", '""', "<!--", "QUJD"]),
    "a cause": lambda text: cause_words(text.decode()),
    "a statement": lambda text: ends_transaction(text.decode()),
    "a recipe": lambda text: compile_recipe(text.decode()),
    "a crontab": lambda text: crontab.parse(text.decode()),
    "a duration": lambda text: durations.read(text.decode()),
    "several durations": lambda text: durations.read_list(text.decode()),
    "a template": lambda text: Template(text.decode()),
    "keys and versions": judge,
    "rows of CSV": of_file(csv_rows),
    "lines of JSON": of_file(json_lines),
    "records of XML": of_file(xml_records),
}
ROWS: dict[str, Callable[[int], bytes]] = {
    "quotes in rows": lambda n: b'"a","b\n"\n' * n,
    "a quote that never ends": lambda n: b'1,"\n' + b"1,2\n" * n,
    "quotes at the ends of lines": lambda n: b'1,"\n' * n,
    "records": lambda n: b"<A>" + b"<a><b>1</b></a>" * n,
    "objects in a list": lambda n: b"[" + b'{"a":[{"b":1}],"k":{"x":"1"}},' * n + b"{}]",
    "elements with text": lambda n: b"<a>" + b"<b k='1'><c>1</c>x</b>" * n + b"</a>",
    "parts of a duration": lambda n: b"1 s " * n,
    "comments of SQL": lambda n: b"/*" * n,
    "comments of SQL that end": lambda n: b"/**/--\n" * n,
    "dollars": lambda n: b"$a$" * n,
    "fields of a template": lambda n: b"{$.a}" * n,
    "operations": lambda n: b"[" + b'{"op":"remove","path":"/a"},' * n + b"1]",
}


# They do most for each unit: at the size of the others they take most of the time of all.
SLOWEST = {
    "the laying out",
    "the place of a fault",
    "a cause",
    "a statement",
    "keys and versions",
    "records of XML",
}
# A unit of a text may have thirty bytes: then fewer are as long a text as those of others.
UNIT_BYTES = 6


def units_of(text: Callable[[int], bytes], most: int) -> int:
    return min(most, UNIT_BYTES * most * 16 // len(text(16)))


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_takes_linear_time(reader: str) -> None:
    def read(text: bytes) -> None:
        with suppress(ValueError, LookupError, IntegrationError, JobError):
            READERS[reader](text)

    units = FEWER_UNITS if reader in SLOWEST else TEXT_UNITS
    slow = {}
    for name, text in {**TEXTS, **ROWS}.items():
        if told := slow_parser(read, text, units_of(text, units)):
            slow[name] = told
    assert not slow
