"""Recipes: one change of a JSON document, written once and made in many messages.

A recipe is a JSON Patch. Numbers stay exactly what they are: whole ones of any size, others as
decimals, in the recipe as in the messages.
"""

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jsonpath import JSONPatch, JSONPointer
from jsonpath.exceptions import JSONPatchError, JSONPointerError, JSONPointerKeyError

from integration.documents.exact_json import encode
from integration.envelope import DEFAULT, Flaw
from integration.envelope.json_text import parse_json
from integration.masking.mask import placeholder_fault

MAX_CHARACTERS: Final = 20_000
MAX_STEPS: Final = 50
# A document may double, and a small one may become so much longer.
GROWTH_CHARACTERS: Final = 100_000
_PLAIN: Final = re.compile(r"\$(?:\.[^\s.\[\]'\"]+|\['[^']+'\]|\[\d{1,9}\])*")
_STEPS: Final = re.compile(r"\.([^\s.\[\]'\"]+)|\['([^']+)'\]|\[(\d+)\]")
_STRAY_TILDE: Final = re.compile(r"~(?![01])")
_WITH_VALUE: Final = frozenset({"add", "replace", "test"})
_WITH_SOURCE: Final = frozenset({"move", "copy"})
_TELLING: Final = _WITH_SOURCE | {"test"}
_KNOWN: Final = _WITH_VALUE | _WITH_SOURCE | {"remove"}


class _Pointer(JSONPointer):
    """The pointer of the standard: the library's own also finds names of names."""

    def _handle_key_error(self, obj: Any, key: str, err: Exception) -> object:  # noqa: ARG002 - the library's signature
        raise JSONPointerKeyError(key) from err


class Unreadable(ValueError):  # noqa: N818 - named after what it is about
    """A recipe that cannot be understood; its text says why, without a full stop."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a recipe does not fit one document, as a sentence without its values."""

    why: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A compiled patch. `apply` leaves the recipe as it is, whatever it does to documents."""

    patch: JSONPatch
    steps: tuple[str, ...]
    has_containers: bool
    grows: bool

    def apply(self, body: object) -> object | Misfit:
        """The document changed in place, or a Misfit, after which `body` is to be thrown away."""
        if not isinstance(body, dict | list):
            return Misfit("The document is a single value, not an object or an array.")
        # A value of the recipe that is an array could grow from message to message.
        patch = deepcopy(self.patch) if self.has_containers else self.patch
        bound = _bound(body) if self.grows else 0
        for place, operation in enumerate(patch.ops):
            try:
                body = operation.apply(body)
            except (JSONPatchError, JSONPointerError, ValueError, TypeError, IndexError) as refusal:
                return Misfit(_told(self.steps[place], refusal))
            # Looked at after each step: fifty copies of the whole in itself would fill any memory.
            if self.grows and _length(body, bound) > bound:
                return Misfit(f"“{self.steps[place]}” makes the document far too large or deep.")
        return body


@lru_cache(maxsize=64)
def compile_recipe(text: str) -> Recipe:
    """A recipe from the text of its JSON Patch. Raises Unreadable."""
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"it is longer than {MAX_CHARACTERS:,} characters")
    steps = parse_json(text, DEFAULT.max_depth)
    if isinstance(steps, Flaw):
        raise Unreadable(f"it is not JSON: {steps.message.rstrip('.')}")
    if not isinstance(steps, list) or not steps:
        raise Unreadable("a JSON Patch is a list of at least one operation")
    if len(steps) > MAX_STEPS:
        raise Unreadable(f"it has more than {MAX_STEPS} operations")
    patch = JSONPatch()
    for step in steps:
        _add(patch, step)
    has_containers = any(isinstance(step.get("value"), dict | list) for step in steps)
    return Recipe(
        patch,
        tuple(f"{step['op']} {step['path'] or 'the whole document'}" for step in steps),
        has_containers,
        has_containers or any(step["op"] in _WITH_SOURCE for step in steps),
    )


def compile_written(text: str) -> Recipe:
    """A recipe that is yet to be stored: none of its values may stand for a hidden one.

    `compile_recipe` takes those as well, because what was stored before stays readable. Raises
    Unreadable.
    """
    if fault := placeholder_fault(text):
        raise Unreadable(fault)
    return compile_recipe(text)


def telling_step(recipe: Recipe) -> str:
    """The first step that copies, moves or compares what is there; empty where none does.

    Such a step may carry a hidden value to where it is seen, or tell by its failing what it is.
    """
    telling = (step for step in recipe.steps if step.partition(" ")[0] in _TELLING)
    return next(telling, "")


def set_value(path: str, value: str, *, is_text: bool, add_missing: bool) -> str:
    """The patch that sets one path to a value. Raises Unreadable.

    `path` is a JSON Pointer (`/asset/siteid`) or a plain JSONPath (`$.asset.siteid`); `value` is
    taken as it is when `is_text`, else as JSON. Without `add_missing` only what is there is
    replaced.
    """
    parsed: object = value
    if not is_text:
        parsed = parse_json(value, DEFAULT.max_depth) if value.strip() else Flaw
        if parsed is Flaw or isinstance(parsed, Flaw):
            raise Unreadable("the new value is not JSON; choose text if it is one")
    step = {"op": "add" if add_missing else "replace", "path": pointer_of(path), "value": parsed}
    text = encode([step])
    compile_written(text)
    return text


@dataclass(frozen=True, slots=True)
class ValueSet:
    """The arguments of `set_value`; `value` as it was typed."""

    path: str
    value: str
    is_text: bool
    add_missing: bool


def value_set(recipe: str) -> ValueSet | None:
    """Return what makes this recipe by `set_value`, or None for any other patch.

    >>> value_set('[{"op":"add","path":"/siteid","value":"007"}]')
    ValueSet(path='/siteid', value='007', is_text=True, add_missing=True)
    """
    match parse_json(recipe, DEFAULT.max_depth):
        case [{"op": "add" | "replace" as op, "path": str(path), "value": value, **rest}] if (
            not rest
        ):
            is_text = isinstance(value, str)
            return ValueSet(path, value if is_text else encode(value), is_text, op == "add")
    return None


def pointer_of(path: str) -> str:
    """A JSON Pointer from a pointer or a plain JSONPath. Raises Unreadable.

    >>> pointer_of("$.asset['site/id'][0]")
    '/asset/site~1id/0'
    """
    text = path.strip()
    if text.startswith("/"):
        return text
    if not text.startswith("$") or text == "$":
        raise Unreadable("the path begins neither with $ nor with /: write $.siteid or /siteid")
    if not _PLAIN.fullmatch(text):
        raise Unreadable("the path may hold names and indexes only, like $.asset.lines[0].qty")
    names = [step[1] or step[2] or step[3] for step in _STEPS.finditer(text)]
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names)


def _add(patch: JSONPatch, step: object) -> None:
    if not isinstance(step, Mapping):
        raise Unreadable("each operation is an object with op and path")
    op = step.get("op")
    if not isinstance(op, str) or op not in _KNOWN:
        raise Unreadable(f"there is no operation {str(op)[:40]!r}; known are {', '.join(_known())}")
    path = _pointer(step, "path")
    if op in _WITH_VALUE:
        if "value" not in step:
            raise Unreadable(f"the operation {op} needs a value")
        getattr(patch, op)(path, step["value"])
    elif op in _WITH_SOURCE:
        getattr(patch, op)(_pointer(step, "from"), path)
    else:
        patch.remove(path)


def _known() -> list[str]:
    return sorted(_KNOWN)


def _pointer(step: Mapping[str, object], name: str) -> JSONPointer:
    text = step.get(name)
    if not isinstance(text, str):
        raise Unreadable(f"each operation needs {name}, a JSON Pointer such as /asset/siteid")
    _refuse_escape(text, name)
    try:
        return _Pointer(text, unicode_escape=False)
    except JSONPointerError as refusal:
        raise Unreadable(f"{name} is no JSON Pointer: it begins with a slash") from refusal


def _refuse_escape(text: str, name: str) -> None:
    """A tilde that stands for nothing would be taken for a part of the member's name."""
    if _STRAY_TILDE.search(text):
        raise Unreadable(
            f"in {name} a ~ is followed by neither 0 nor 1: ~0 means ~, and ~1 means /"
        )


def _bound(body: object) -> int:
    """Return how long a document may become: a patch is no way to multiply its size."""
    return min(DEFAULT.max_bytes, 2 * _length(body, DEFAULT.max_bytes) + GROWTH_CHARACTERS)


def _length(body: object, most: int) -> int:
    """Return a length that the text has at least; above `most` where it is longer or too deep."""
    length, waiting = 0, [(body, 1)]
    while waiting and length <= most:
        value, depth = waiting.pop()
        if not isinstance(value, dict | list):
            length += len(value) if isinstance(value, str) else 1
            continue
        if depth > DEFAULT.max_depth:
            return most + 1
        if isinstance(value, dict):
            length += sum(map(len, value)) + 3 * len(value)
        length += len(value)
        waiting += [(member, depth + 1) for member in _members(value)]
    return length


def _members(value: dict[str, object] | list[object]) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value


def _told(step: str, refusal: Exception) -> str:
    """A sentence that is the same for all messages with the same trouble."""
    if step.startswith("test "):
        return f"“{step}” does not hold."
    if isinstance(refusal, JSONPointerError) or "nonexistent" in str(refusal):
        return f"“{step}” finds nothing there to change."
    return f"“{step}” is not possible in this document."
