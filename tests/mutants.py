"""How many small faults in the pure parts the fast tests would notice.

`python -m tests.mutants [--sample N] [--seed S] [CHECKOUT]` makes one fault at a time in a copy of
the checkout (a comparison turned round, a bound moved by one, `and` for `or`, a value that is not
returned), runs the tests of the pure parts, and prints a JSON line a fault and one with the sums.
A fault that no test notices is a test that is missing, or a line that does nothing.
"""

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PURE: Final = (
    "integration/policy",
    "integration/delivery/policy",
    "integration/envelope",
    "crontasks/schedule",
)
TESTS: Final = (
    "tests/unit/delivery",
    "tests/unit/envelope",
    "tests/unit/test_schedule.py",
    "tests/unit/test_retry_line.py",
    "tests/property/test_delivery_policy.py",
    "tests/property/test_envelope_properties.py",
)
# Ten times what the tests take when nothing is wrong; a fault that makes a loop endless is noticed.
WITHIN_SECONDS: Final = 300
TURNED: Final = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
}


def faults(source: str) -> Iterator[tuple[str, str]]:
    """Each fault that can be made in the text: where and what, and the text with it."""
    for place in range(len(list(ast.walk(ast.parse(source))))):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[place]
        what = _broken(node)
        if what:
            yield (
                f"{getattr(node, 'lineno', 0)} {what}",
                ast.unparse(ast.fix_missing_locations(tree)),
            )


def _broken(node: ast.AST) -> str:
    """Break this node; what was done, or "" where nothing can be."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in TURNED:
            node.ops = [TURNED[type(op)]()]
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in TURNED:
            node.op = TURNED[type(op)]()
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() as value):
            node.value = value + 1
        case ast.UnaryOp(op=ast.Not()):
            node.op = ast.UAdd()
        case ast.Return(value=ast.expr()):
            node.value = ast.Constant(None)
        case _:
            return ""
    return type(node).__name__


def copied(checkout: Path, folder: Path) -> Path:
    """What git tracks, with the installed packages beside it."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, names.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkout / name, folder / name)
    return folder


def is_noticed(copy: Path) -> bool:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0"]
    tests = [test for test in TESTS if (copy / test).exists()]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=copy,
            capture_output=True,
            timeout=WITHIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=Path())
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(asked.checkout.resolve(), Path(folder))
        assert not is_noticed(copy), "the tests fail without a fault"
        files = sorted(file for place in PURE for file in (copy / place).glob("*.py"))
        known = [(file, *fault) for file in files for fault in faults(file.read_text())]
        chosen = random.Random(asked.seed).sample(known, min(asked.sample, len(known)))
        noticed = 0
        for file, where, text in chosen:
            whole = file.read_text()
            file.write_text(text)
            killed = is_noticed(copy)
            file.write_text(whole)
            noticed += killed
            _print({"file": str(file.relative_to(copy)), "fault": where, "noticed": killed})
        share = round(100 * noticed / len(chosen), 1)
        _print({"known": len(known), "tried": len(chosen), "noticed": noticed, "percent": share})


def _print(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
