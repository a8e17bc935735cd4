"""The project's own files, as text and as trees."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = (
    "config",
    "console",
    "crontasks",
    "integration",
    "devstack",
    "bench",
    "payments",
    "sample",
    "sluice",
    "sluice_cli",
)


@cache
def tracked() -> tuple[str, ...]:
    """Paths of all files that git knows, relative to the project."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return tuple(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def modules(*rooms: str) -> Iterator[tuple[str, str]]:
    """(path, text) of each Python module below these folders, migrations left out."""
    for name in tracked():
        inside = any(name.startswith(f"{room}/") or name == room for room in rooms)
        if inside and name.endswith(".py") and "/migrations/" not in name:
            yield name, text(name)


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(source: str) -> set[str]:
    """The first name of every module that is imported anywhere in the source."""
    found: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found
