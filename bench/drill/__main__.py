"""`python -m bench.drill [NAME …]`: what operators fear, tried on the stack of `make run`.

One JSON line for each drill; exit code 1 unless all of them are ok.
"""

import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.drill import bombs, form, hang, people, transaction, trickle
from bench.drill.ground import Ground, running
from bench.rig import BenchmarkError

Drill = Callable[[Ground], Mapping[str, object]]
DRILLS: Final[Mapping[str, Drill]] = {
    "bombs": bombs.drill,
    "trickle": trickle.drill,
    "transaction": transaction.drill,
    "form": form.drill,
    "people": people.drill,
    "hang": hang.drill,
}


def main(names: Sequence[str]) -> int:
    """Carry out the drills of these names, or all of them."""
    unknown = [name for name in names if name not in DRILLS]
    if unknown:
        print(f"There is no drill {unknown[0]}. Drills: {', '.join(DRILLS)}", file=sys.stderr)
        return 2
    try:
        ground = running()
    except BenchmarkError as problem:
        print(problem, file=sys.stderr)
        return 2
    good = [_is_good(ground, name) for name in dict.fromkeys(names or DRILLS)]
    return 0 if all(good) else 1


def _is_good(ground: Ground, name: str) -> bool:
    try:
        line = dict(DRILLS[name](ground))
    except Exception as problem:  # noqa: BLE001 - the other drills shall have their turn
        traceback.print_exc()
        line = {"ok": False, "problem": f"{type(problem).__name__}: {problem}"}
    finally:
        ground.clear()
    print(json.dumps({"name": name, **line}), flush=True)
    return line.get("ok") is True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
