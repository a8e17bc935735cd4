"""No circle between the rooms of a package, imports inside functions and for types included."""

import ast
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.architecture.sources import modules, parsed

pytestmark = pytest.mark.fast

PACKAGES = ("integration", "crontasks", "console", "spark_jobs", "devstack")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_rooms_import_each_other(package):
    assert not circles(edges(package, modules(package)))


def test_a_circle_is_found_wherever_the_import_stands():
    sources = [
        ("p/a/one.py", "import p.b.two"),
        ("p/b/two.py", "def late():\n    from p import c"),
        (
            "p/c.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a.one import X",
        ),
        ("p/d.py", "from p.a import one"),
    ]
    assert circles(edges("p", sources)) == [{"a", "b", "c"}]


def edges(package: str, sources: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Which rooms each room imports. A room is a folder or a module right below the package."""
    found: dict[str, set[str]] = {}
    for name, source in sources:
        parts = name.removesuffix(".py").split("/")
        if len(parts) < 2 or parts[1] == "__init__":
            continue
        others = found.setdefault(parts[1], set())
        others |= {room for room in _rooms(package, source) if room != parts[1]}
    return found


def _rooms(package: str, source: str) -> Iterator[str]:
    for node in ast.walk(parsed(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, _, rest = name.partition(".")
            if first == package and rest:
                yield rest.partition(".")[0]


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The groups of rooms that reach each other."""
    reached = {room: _reached(graph, room) for room in graph}
    found: list[set[str]] = []
    for room, others in reached.items():
        circle = {other for other in others if room in reached.get(other, ())}
        if circle and circle not in found:
            found.append(circle)
    return found


def _reached(graph: Mapping[str, set[str]], room: str) -> set[str]:
    found: set[str] = set()
    ahead = list(graph[room])
    while ahead:
        following = ahead.pop()
        if following not in found:
            found.add(following)
            ahead += graph.get(following, ())
    return found
