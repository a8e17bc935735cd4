"""Every regular expression of a code base, found in its source and in its modules.

What is compiled where a module or class is made is found as a value; what is compiled or used by
a function is read there. What can be known only at run time is told apart, to be named by hand.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

METHODS: Final = frozenset(
    {"search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
)
# What a pattern is called with where the source does not say.
USUAL: Final = frozenset({"search", "fullmatch"})
HARMLESS: Final = frozenset({"escape", "purge", "error"})
# Engines besides Python's own, and Django's ways to hand a pattern to one.
OTHERS: Final = frozenset({"regex", "re2", "sre_compile", "fnmatch"})
_CALLED: Final = re.compile(rf"\b(\w+)\.({'|'.join(METHODS)})\b")
_IN_SQL: Final = re.compile(r"__i?regex$")
_IN_FORMS: Final = frozenset({"RegexValidator", "RegexField", "re_path"})


@dataclass(slots=True)
class Found:
    """`patterns`: text and flags → where, and the methods it is called with.

    `untold`: what uses a pattern that the source does not tell, as file and function.
    """

    patterns: dict[tuple[Any, int], tuple[str, set[str]]] = field(default_factory=dict)
    untold: set[str] = field(default_factory=set)

    def add(self, pattern: re.Pattern[Any], where: str, methods: Iterable[str]) -> None:
        key = (pattern.pattern, pattern.flags)
        self.patterns.setdefault(key, (where, set()))[1].update(methods)


def collect(modules: Iterable[ModuleType], sources: Mapping[str, str]) -> Found:
    """Everything that the modules hold and the sources, by the names of their files, say."""
    found = Found()
    used = {file: _methods_by_name(source) for file, source in sources.items()}
    anywhere = _methods_by_name("\n".join(sources.values()))
    read = set()
    for module in modules:
        file = module.__name__.replace(".", "/")
        file = f"{file}.py" if f"{file}.py" in sources else f"{file}/__init__.py"
        read.add(file)
        own = used.get(file, {})
        for name, pattern in _held(module):
            methods = own.get(name) if name.startswith("_") else anywhere.get(name)
            found.add(pattern, f"{module.__name__}.{name}", methods or USUAL)
    for file, source in sources.items():
        _Reader(file, found, is_imported=file in read).visit(ast.parse(source))
    return found


def _methods_by_name(source: str) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {}
    for name, method in _CALLED.findall(source):
        used.setdefault(name, set()).add(method)
    return used


def _held(module: ModuleType) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns among a module's values, in its containers, and in its classes."""
    waiting = list(vars(module).items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, re.Pattern):
            yield name, value
        elif isinstance(value, dict) and not name.startswith("__"):
            waiting += [(name, one) for pair in list(value.items()) for one in pair]
        elif isinstance(value, tuple | list | set | frozenset):
            waiting += [(name, one) for one in value]
        elif isinstance(value, type) and value.__module__ == module.__name__:
            waiting += list(vars(value).items())


class _Reader(ast.NodeVisitor):
    def __init__(self, file: str, found: Found, *, is_imported: bool) -> None:
        self.file = file
        # Of a module that is imported, what it holds has been seen already.
        self.is_imported = is_imported
        self.found = found
        self.functions: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module in OTHERS | {"re"}:
            self._untold(node.module or "")

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            if one.name in OTHERS or (one.name == "re" and one.asname):
                self._untold(one.name)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and _is_re(called.value):
            self._of_re(called.attr, node)
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in _IN_FORMS or any(_IN_SQL.search(one.arg or "") for one in node.keywords):
            self._untold(name)
        self.generic_visit(node)

    def _of_re(self, name: str, call: ast.Call) -> None:
        if name in HARMLESS or (name == "compile" and self.is_imported and not self.functions):
            return
        text = call.args[0] if call.args else None
        if isinstance(text, ast.Constant):
            pattern = re.compile(text.value, _flags(name, call))
            methods = USUAL if name == "compile" else {name}
            self.found.add(pattern, f"{self.file}:{call.lineno}", methods)
        else:
            self._untold(name)

    def _untold(self, what: str) -> None:
        self.found.untold.add(f"{self.file}:{'.'.join(self.functions) or 'module'}:{what}")


def _is_re(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "re"


def _flags(name: str, call: ast.Call) -> int:
    """The flags of a call, which are the second of compile's arguments and come by name else."""
    written = [one.value for one in call.keywords if one.arg == "flags"]
    if name == "compile":
        written += call.args[1:2]
    flags = 0
    for node in ast.walk(ast.Module([ast.Expr(one) for one in written], [])):
        if isinstance(node, ast.Attribute) and _is_re(node.value):
            flags |= getattr(re, node.attr)
    return flags
