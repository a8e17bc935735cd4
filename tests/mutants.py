"""How many small faults in the pure parts the fast tests would notice.

`python -m tests.mutants [--sample N] [--seed S] [CHECKOUT]` makes one fault at a time in a copy of
the checkout (a comparison turned round, a bound moved by one, `and` for `or`, a value that is not
returned), runs the tests of the pure parts, and prints a JSON line a fault and one with the sums.
A fault that no test notices is a test that is missing, or a line that does nothing.
"""

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import celery.app
import django.test
import hypothesis.strategies
import lxml.etree
import pytest

# Loaded once, before the forks.
LOADED: Final = (celery.app, django.test, hypothesis.strategies, lxml.etree)
OPTIONS: Final = (
    *("-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)

POLICY: Final = (
    "tests/unit/delivery",
    "tests/unit/test_client_properties.py",
    "tests/unit/test_policy_shares.py",
    "tests/unit/test_policy_topics.py",
    "tests/unit/test_relay_shares.py",
    "tests/unit/test_retry_line.py",
    "tests/property/test_delivery_policy.py",
    "tests/property/test_relay_shards.py",
)
# The pure parts, and the tests of each.
PURE: Final = {
    "integration/policy": POLICY,
    "integration/delivery/policy": POLICY,
    "integration/envelope": (
        "tests/unit/envelope",
        "tests/property/test_envelope_properties.py",
    ),
    "crontasks/schedule": ("tests/unit/test_schedule.py",),
}
# Of a processor, many times what the tests take when nothing is wrong: an endless loop is noticed,
# a machine with much to do is not. The other is for a fault that waits for ever.
PROCESSOR_SECONDS: Final = 60
WITHIN_SECONDS: Final = 1_800
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


def is_noticed(copy: Path, place: str) -> bool:
    """Return True when a test of that part fails, or they do not end.

    Run in a fork of this process, which has loaded all but the project: half the time of a run.
    """
    tests = [test for test in PURE[place] if (copy / test).exists()]
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        # This very package is of another checkout.
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        ended = 1
        try:
            ended = int(pytest.main([*OPTIONS, *tests]))
        finally:
            # Whatever a fault raises: this process must not tidy up the copy.
            os._exit(ended)
    until = time.monotonic() + WITHIN_SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=Path())
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(asked.checkout.resolve(), Path(folder))
        assert not any(is_noticed(copy, place) for place in PURE), "tests fail without a fault"
        known = [
            (place, file, *fault)
            for place in PURE
            for file in sorted((copy / place).glob("*.py"))
            for fault in faults(file.read_text())
        ]
        chosen = random.Random(asked.seed).sample(known, min(asked.sample, len(known)))
        noticed = 0
        for place, file, where, text in chosen:
            whole = file.read_text()
            file.write_text(text)
            killed = is_noticed(copy, place)
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
