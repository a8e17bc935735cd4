"""The documents: their links lead somewhere, and what they name of the code is there."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import paths

pytestmark = pytest.mark.fast

ROOMS = ("config", "sluice", "integration", "crontasks", "console", "devstack")
FRONT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = [*(paths.ROOT / name for name in FRONT), *sorted(paths.ROOT.glob("docs/**/*.md"))]
OWN = [page for page in PAGES if page.parent != paths.ROOT / "docs" or page.name == "glossary.md"]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\(\))?")
CLASS = re.compile(r"(?:[A-Z][a-z]+){2,}")
# Set up on each machine, and so not part of what was checked out.
MADE = (".venv/", "site/")
PATH = re.compile(r"[\w.<>-]+(?:/[\w.<>-]*)+")

Members = dict[str, frozenset[str]]


def name_of(page: Path) -> str:
    return str(page.relative_to(paths.ROOT))


@functools.cache
def modules() -> dict[tuple[str, ...], Members]:
    """Every module of the rooms: its top-level names, and the members of its classes."""
    found = {}
    for room in ROOMS:
        for file in (paths.ROOT / room).rglob("*.py"):
            place = file.relative_to(paths.ROOT).with_suffix("").parts
            found[place[:-1] if place[-1] == "__init__" else place] = _names(file)
    return found


def _names(file: Path) -> Members:
    names: Members = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = frozenset(_own_names(node.body))
        else:
            names.update((name, frozenset()) for name in _own_names([node]))
    return names


def _own_names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                yield node.name
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    yield from _attributes(node)
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign():
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)


def _attributes(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def is_known(name: str) -> bool:
    """Whether a module, or something in one, answers to this name or ends in it."""
    parts = tuple(name.removesuffix("()").split("."))
    for place, names in modules().items():
        for cut in range(len(parts) + 1):
            if place[len(place) - cut :] == parts[:cut] and _is_in(names, parts[cut:]):
                return True
    return any(place[-len(parts) :] == parts for place in modules())


def _is_in(names: Members, rest: tuple[str, ...]) -> bool:
    if not rest or rest[0] not in names:
        return False
    return len(rest) == 1 or (len(rest) == 2 and rest[1] in names[rest[0]])


def is_there(path: str) -> bool:
    if path.startswith(MADE):
        return True
    places = ("", "integration", "integration/delivery", "console/templates/console", "tests")
    return "<" in path or any((paths.ROOT / place / path).exists() for place in places)


def is_file(name: str) -> bool:
    stem, _, suffix = name.rpartition(".")
    in_rooms = suffix == "py" and any(place[-1] == stem for place in modules())
    return in_rooms or (paths.ROOT / name).exists()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    targets = [link for link in LINK.findall(page.read_text()) if ":" not in link]

    assert [link for link in targets if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", OWN, ids=name_of)
def test_what_is_named_of_the_code_is_there(page):
    absent = []
    for text in CODE.findall(page.read_text()):
        for word in text.split():
            if PATH.fullmatch(word):
                absent += [] if is_there(word) else [word]
            elif word.endswith((".py", ".toml", ".md", ".in", ".example")):
                absent += [] if is_file(word) else [word]
            elif DOTTED.fullmatch(word) or CLASS.fullmatch(word):
                absent += [] if is_known(word) else [word]
    assert absent == []


def test_a_wrong_name_would_be_noticed():
    assert is_known("store.partition_manager.DatabasePartitionManager.take")
    assert is_known("QueuePartition.next_offset")
    assert not is_known("store.partition_manager.DatabasePartitionManager.lend")
    assert not is_known("integration.delivery.errands")
    assert not is_there("delivery/errands.py")


def test_every_test_that_a_guarantee_names_is_there():
    text = (paths.ROOT / "docs/guarantees.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+(?:::\w+)?)`", text)
    assert len(named) > 100
    for file, name in named:
        source = (paths.ROOT / file).read_text()
        for part in name.split("::"):
            assert re.search(rf"^\s*(?:def|class) {part}\b", source, re.MULTILINE), name
