"""`python -m tests.fuzz [NAME …] --seconds 600`: any bytes, to whatever reads bytes from outside.

Each target in turn, guided by what it covers (atheris). Found is what is raised, what takes ten
seconds, a code that no page documents, and twice the input that takes more than 2.5 times as long.
One JSON line a target; exit code 1 unless all found nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from devstack import environment, errors, tool
from tests.fuzz.growing import MOST_GROWTH, worst
from tests.fuzz.targets import TARGETS

REQUIREMENTS: Final = Path(__file__).parent / "requirements-fuzz.txt"
# Beyond its time: to load, and to measure how the slowest inputs grow.
MORE_SECONDS: Final = 600


def main() -> int:
    """Fuzz the targets of these names, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.names) - set(TARGETS):
        parser.error(f"there is no target {min(unknown)}: {', '.join(TARGETS)}")
    library = environment.fetched("fuzz", REQUIREMENTS)
    if library is None:
        raise errors.no_network("The fuzzer atheris", tool.log_for("fuzz"))
    names = options.names or list(TARGETS)
    lines = [_fuzzed(library, name, options.seconds, options.seed) for name in names]
    return 0 if all(line["ok"] for line in lines) else 1


def _fuzzed(library: Path, name: str, seconds: int, seed: int) -> dict[str, object]:
    folder = Path(tempfile.mkdtemp(prefix=f"sluice-fuzz-{name}-"))
    words = [name, str(seconds), str(seed), str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.child", *words],
        env={**os.environ, "PYTHONPATH": str(library)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + MORE_SECONDS,
        check=False,
    )
    line: dict[str, object] = {"name": name, "seconds": seconds, "seed": seed, "ok": False}
    said = done.stdout.strip().splitlines()
    if done.returncode == 0 and said:
        line |= _judged(name, json.loads(said[-1]), seed)
    else:
        # The input is in that folder, too.
        line["problem"] = _without_chatter(done.stdout + done.stderr)[-3_000:]
        line["folder"] = str(folder)
    print(json.dumps(line), flush=True)
    return line


def _without_chatter(said: str) -> str:
    """What the child has said but for the fuzzer's own lines, which push a traceback out."""
    lines = said.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("INFO:", "WARNING:", "0x")))


def _judged(name: str, seen: dict[str, Any], seed: int) -> dict[str, Any]:
    """What the child has seen, and how its slowest inputs grow; here, where no input is timed."""
    target = TARGETS[name]
    inputs = [*target.seeds, *map(bytes.fromhex, seen.pop("slowest"))]
    growth = worst(lambda data: list(target.read(data)), inputs, seed)
    is_ok = growth.ratio <= MOST_GROWTH
    parts = {} if is_ok else {"grows": [part.hex() for part in growth[1:]]}
    return {**seen, "ok": is_ok, "growth": round(growth.ratio, 2), **parts}


if __name__ == "__main__":
    sys.exit(main())
