"""No text from outside takes more than linear time: every pattern and parser of the product."""

import ast
import gzip
import importlib
import json
import pkgutil
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration import envelope
from integration.envelope.document import Limits
from tests.support.growth import slow_parser, slow_pattern

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
PRODUCT = ("integration", "crontasks", "console", "spark_jobs", "sample", "config")
METHODS = "search|match|fullmatch|sub|subn|split|findall|finditer"
USED = re.compile(rf"\b(\w+)\.({METHODS})\(")
ROOMY = Limits(max_bytes=2**26)


def modules() -> Iterator[Any]:
    for room in PRODUCT:
        for found in pkgutil.walk_packages([str(ROOT / room)], prefix=f"{room}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def sources() -> Iterator[tuple[Path, str]]:
    for room in PRODUCT:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield file, file.read_text()


def methods_by_name() -> dict[str, set[str]]:
    used: dict[str, set[str]] = {}
    for _, source in sources():
        for name, method in USED.findall(source):
            used.setdefault(name, set()).add(method)
    return used


def patterns() -> dict[tuple[Any, int], tuple[str, set[str]]]:
    """Every pattern with its flags: where it stands, and the methods it is called with."""
    used = methods_by_name()
    found: dict[tuple[Any, int], tuple[str, set[str]]] = {}
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                methods = used.get(name, {"search", "fullmatch"})
                key = (value.pattern, value.flags)
                found.setdefault(key, (f"{module.__name__}.{name}", set()))[1].update(methods)
    for file, source in sources():
        for call in ast.walk(ast.parse(source)):
            if is_of_re(call) and isinstance(call.args[0], ast.Constant):
                compiled = re.compile(call.args[0].value)
                where = f"{file.relative_to(ROOT)}:{call.lineno}"
                key = (compiled.pattern, compiled.flags)
                found.setdefault(key, (where, set()))[1].add(call.func.attr)
    return found


def is_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and re.fullmatch(METHODS, node.func.attr) is not None
    )


def test_no_pattern_takes_more_than_linear_time() -> None:
    slow = {}
    for (pattern, flags), (where, methods) in patterns().items():
        if told := slow_pattern(re.compile(pattern, flags), sorted(methods)):
            slow[where] = told
    assert not slow


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
