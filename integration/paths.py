"""Key paths and version paths of object structures: the first value a path finds in a body.

JSONPath (begins with `$`) for JSON, XPath (begins with `/`) for XML. Both are cut down to what
takes time in proportion to the document, because documents are untrusted: no functions, no
unions, one descent at most.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from json import JSONEncoder
from typing import Any, ClassVar, Final, Protocol

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.token import (
    TOKEN_COMMA,
    TOKEN_DDOT,
    TOKEN_FILTER,
    TOKEN_FUNCTION,
    TOKEN_LBRACKET,
    TOKEN_RBRACKET,
    TOKEN_ROOT,
    TOKEN_WILD,
)
from lxml import etree

from integration.envelope.flaw import Flaw, FlawCode
from integration.envelope.json_flaw import MAX_DIGITS
from integration.errors import IntegrationError
from integration.xpath import XPathProblem, without_namespaces

Value = str | int | Decimal
MAX_PATH_CHARACTERS: Final = 250
# PostgreSQL's index entries end at 2,704 bytes; this leaves room for the other columns.
MAX_KEY_BYTES: Final = 1024
_PLAIN_STEP: Final = r"\.[A-Za-z_]\w*|\['[^'\\]+'\]|\[\d{1,9}\]"
_PLAIN: Final = re.compile(rf"\$(?:{_PLAIN_STEP})+", re.ASCII)
_STEPS: Final = re.compile(r"\.(\w+)|\['([^']+)'\]|\[(\d+)\]")
_NEVER: Final = frozenset({TOKEN_FUNCTION, TOKEN_COMMA})
_ONCE: Final = frozenset({TOKEN_DDOT, TOKEN_FILTER})
_NOT_IN_FILTERS: Final = frozenset({TOKEN_DDOT, TOKEN_WILD, TOKEN_ROOT})
_BRACKETS: Final = {TOKEN_LBRACKET: 1, TOKEN_RBRACKET: -1}
# Python's default context would round keys to 28 digits, and so make two of them one.
_EXACT: Final = Context(prec=2 * MAX_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
_array = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BadPath(IntegrationError):  # noqa: N818 - named after what it is about
    """A path is not valid, or outside what is permitted; `path` and `reason` say more."""

    code: ClassVar[str] = "BAD_PATH"

    def __init__(self, *, path: str, reason: str) -> None:
        shown = path if len(path) <= MAX_PATH_CHARACTERS else path[:MAX_PATH_CHARACTERS] + "…"
        super().__init__(
            f"The path {shown!r} cannot be used: {reason}.",
            next_step="Write a JSONPath like $.asset.assetnum or an XPath like /Asset/ASSETNUM.",
        )
        self.path = path
        self.reason = reason


class Path(Protocol):
    """A compiled path. It may be shared between threads."""

    text: str

    def first(self, body: object) -> Value | None:
        """Return the first value found, None if there is none to use.

        Only the first place found counts. Objects, arrays, elements with children, true,
        false, null and blank texts are no values; XML text comes without outer blanks.
        """

    def varies(self, body: object, /) -> bool:
        """Return whether the values at all places found are not one: which is meant is unknown."""


def compile_path(text: str) -> Path:
    """Return the path ready for use. Raises BadPath.

    >>> compile_path("$.asset.num").first({"asset": {"num": 7}})
    7
    """
    if len(text) > MAX_PATH_CHARACTERS:
        raise BadPath(path=text, reason=f"it is longer than {MAX_PATH_CHARACTERS} characters")
    if text.startswith("/"):
        return _XmlPath(text)
    if not text.startswith("$"):
        raise BadPath(path=text, reason="it begins neither with $ (JSONPath) nor with / (XPath)")
    if _PLAIN.fullmatch(text):
        return _PlainPath(text)
    return _JsonPath(text)


def plain_steps(text: str) -> tuple[str | int, ...] | None:
    """The names and places of a JSONPath that has nothing else; None for any other path.

    >>> plain_steps("$.lines[0]['part number']")
    ('lines', 0, 'part number')
    """
    if len(text) > MAX_PATH_CHARACTERS or not _PLAIN.fullmatch(text):
        return None
    return _steps(text)


def _steps(text: str) -> tuple[str | int, ...]:
    return tuple(int(step[3]) if step[3] else step[1] or step[2] for step in _STEPS.finditer(text))


def key_of(paths: Sequence[Path], body: object) -> str | Flaw:
    """Return the key that the paths find: one value as its text, several as a JSON array.

    Numbers are written in their shortest plain form and quoted in the array, so that 7, 7.0
    and "7", from JSON or XML, are one key.
    """
    values: list[str] = []
    for path in paths:
        value = path.first(body)
        if value is None:
            return Flaw(FlawCode.NO_KEY, f"The key path {path.text} finds no value.")
        values.append(_text(value))
    key = values[0] if len(values) == 1 else _array(values)
    if len(key) * 4 > MAX_KEY_BYTES and len(key.encode()) > MAX_KEY_BYTES:
        return Flaw(FlawCode.KEY_TOO_LONG, f"The key is longer than {MAX_KEY_BYTES:,} bytes.")
    return key


def key_of_values(paths: Sequence[Path], values: Sequence[object]) -> str | None:
    """Return the key of these values, one for each path; None where a path finds none like it.

    It is the key that `key_of` returns for the document that has them.
    """
    texts: list[str] = []
    for path, value in zip(paths, values, strict=True):
        if isinstance(value, str) and isinstance(path, _XmlPath):
            value = value.strip()  # noqa: PLW2901 - as the path does
        found = _value(value)
        if found is None:
            return None
        texts.append(_text(found))
    return texts[0] if len(texts) == 1 else _array(texts)


def object_key(paths: Sequence[Path], body: object) -> str | Flaw:
    """Return the same key for a document that is to be stored under it as one object.

    A path that finds values that differ is a flaw here: there are several objects, all but the
    first of which would be lost, and nobody would miss them.
    """
    key = key_of(paths, body)
    path = None if isinstance(key, Flaw) else next((p for p in paths if p.varies(body)), None)
    if path is None:
        return key
    text = f"The key path {path.text} finds several values, and one message stores one object."
    return Flaw(FlawCode.KEY_AMBIGUOUS, text)


def text_reader(path: Path, longest: int) -> Callable[[object], str | None]:
    """Return what gives the text the path finds, of at most so many characters, None for nothing.

    For what only accompanies a message: no document makes it raise. A plain name, which most
    paths are, is answered here, because it is asked of every message.
    """
    name = path.only_name if isinstance(path, _PlainPath) else None

    def read(body: object) -> str | None:
        if name is not None and type(body) is dict:
            value = body.get(name)
            if type(value) is str:
                return value[:longest] if value and not value.isspace() else None
            if type(value) is int and value.bit_length() < 64:
                return str(value)[:longest]
        return _text_at(path, body, longest)

    return read


def texts_reader(path: Path, longest: int) -> Callable[[Sequence[object]], Sequence[str | None]]:
    """Return what gives the text the path finds in each of many bodies, as `text_reader` does.

    Where a plain name finds the same kind of value everywhere, which most do, no body costs a call.
    """
    read = text_reader(path, longest)
    name = path.only_name if isinstance(path, _PlainPath) else None

    def read_all(bodies: Sequence[Any]) -> Sequence[str | None]:
        if name is None or set(map(type, bodies)) != {dict}:
            return [read(body) for body in bodies]
        values = [body.get(name) for body in bodies]
        kinds = set(map(type, values))
        if kinds == {str} and all(map(str.strip, values)) and len(max(values, key=len)) <= longest:
            return values
        if kinds == {int} and max(values).bit_length() < 64 and min(values).bit_length() < 64:
            return [str(value)[:longest] for value in values]
        return [read(body) for body in bodies]

    return read_all


def _text_at(path: Path, body: object, longest: int) -> str | None:
    try:
        value = path.first(body)
        if value is None:
            return None
        return _text(value)[:longest]
    except Exception:  # noqa: BLE001 - a search id is never worth the batch it belongs to
        return None


class _PlainPath:
    """Names and indexes only: answered with plain look-ups."""

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _steps(text)

    @property
    def only_name(self) -> str | None:
        only = self._steps[0] if len(self._steps) == 1 else None
        return only if isinstance(only, str) else None

    def first(self, body: object) -> Value | None:
        for step in self._steps:
            if isinstance(body, dict):
                body = body.get(step)
            elif isinstance(body, list) and type(step) is int and step < len(body):
                body = body[step]
            else:
                return None
        return _value(body)

    def varies(self, _body: object, /) -> bool:
        """It leads to one place at most."""
        return False


class _JsonPath:
    """A JSONPath by the standard (RFC 9535), checked to be of linear cost."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            if reason := _costly(token.kind for token in _ENVIRONMENT.lexer.tokenize(text)):
                raise BadPath(path=text, reason=reason)
            compiled = _ENVIRONMENT.compile(text)
        except (JSONPathError, RecursionError) as failure:
            reason = str(failure.args[0]) if failure.args else "it is not a JSONPath"
            raise BadPath(path=text, reason=reason) from failure
        except ValueError as failure:
            # The library takes 4e0 for an index, and then for no number.
            raise BadPath(path=text, reason="it is not a JSONPath") from failure
        if not isinstance(compiled, JSONPath) or compiled.empty():
            raise BadPath(path=text, reason="it names nothing inside the document")
        self._compiled = compiled

    def first(self, body: object) -> Value | None:
        if not isinstance(body, dict | list):
            return None  # the library would parse a str as JSON
        match = self._compiled.match(body)
        return _value(match.obj) if match else None

    def varies(self, body: object, /) -> bool:
        if not isinstance(body, dict | list):
            return False
        found = (_value(match.obj) for match in self._compiled.finditer(body))
        return len({_text(value) for value in found if value is not None}) > 1


class _XmlPath:
    """An XPath whose names match local names."""

    __slots__ = ("_every", "_first", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            rewritten = without_namespaces(text)
        except XPathProblem as problem:
            raise BadPath(path=text, reason=str(problem)) from problem
        try:
            # The parentheses let libxml2 stop at the first place found.
            self._first = etree.XPath(f"({rewritten})[1]", smart_strings=False)
            self._every = etree.XPath(rewritten, smart_strings=False)
        except etree.XPathError as problem:
            raise BadPath(path=text, reason="it has a name that XML does not have") from problem
        except ValueError as problem:
            reason = "it has a character that XML cannot hold"
            raise BadPath(path=text, reason=reason) from problem

    def first(self, body: object) -> Value | None:
        return next(iter(self._values(self._first, body)), None)

    def varies(self, body: object, /) -> bool:
        return len({*self._values(self._every, body)} - {None}) > 1

    def _values(self, compiled: etree.XPath, body: object) -> list[str | None]:
        if not isinstance(body, etree._Element):  # noqa: SLF001 - lxml's only name for it
            return []
        nodes = compiled(body)
        return [_node_text(node) for node in nodes] if isinstance(nodes, list) else []


class _Environment(JSONPathEnvironment):
    """The standard's grammar without functions; deep enough for every document we accept."""

    max_recursion_depth = 300

    def setup_function_extensions(self) -> None:
        self.function_extensions = {}


_ENVIRONMENT: Final = _Environment(strict=True, filter_caching=False)


def _costly(kinds: Iterator[str]) -> str | None:
    """Return why the path could take more than linear time, None if it cannot."""
    seen: set[str] = set()
    depth, filter_depth = 0, 0
    for kind in kinds:
        if kind in _NEVER:
            return "functions and unions of several selectors are not permitted"
        if kind in _ONCE and kind in seen:
            return ".. and ? may each stand once"
        seen.add(kind)
        depth += _BRACKETS.get(kind, 0)
        if depth < filter_depth:
            filter_depth = 0
        if filter_depth and kind in _NOT_IN_FILTERS:
            return ".. and * and $ are not permitted inside a filter"
        if kind == TOKEN_FILTER:
            filter_depth = depth
    return None


def _value(value: object) -> Value | None:
    if type(value) is str:
        return value if value and not value.isspace() else None
    return value if type(value) is int or type(value) is Decimal else None


def _node_text(node: object) -> str | None:
    if isinstance(node, etree._Element):  # noqa: SLF001
        return None if len(node) else (node.text or "").strip() or None
    return str(node).strip() or None


def _text(value: Value) -> str:
    return value if type(value) is str else _plain_number(value)


def _plain_number(number: Value) -> str:
    if not isinstance(number, Decimal):
        return str(number)
    return f"{number.normalize(_EXACT):f}" if number else "0"
