"""`python -m bench [NAME …]`: one JSON object per line; exit code 1 when a target is missed."""

import argparse
import os
import signal
import sys
import time
import traceback
from typing import NoReturn

from bench.catalogue import BENCHMARKS, PEERS
from bench.ground import Ground, prepared


def main() -> int:
    """Run the benchmarks asked for; a benchmark that breaks does not keep the others from it."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupted)
    quick = options.quick or os.environ.get("BENCH_QUICK", "0") not in {"", "0"}
    asked = options.names or list(BENCHMARKS)
    names = [one for name in asked for one in (PEERS if name == "peers" else [name])]
    with prepared(quick=quick) as ground:
        missed = [name for name in names if not _is_reached(name, ground)]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def _is_reached(name: str, ground: Ground) -> bool:
    began = time.monotonic()
    try:
        figure = {**BENCHMARKS, **PEERS}[name](ground)
    except Exception:  # noqa: BLE001 - the next benchmark has nothing to do with this one
        print(f"{name} could not be carried out:", file=sys.stderr)
        traceback.print_exc()
        return False
    print(figure.line(took_seconds=round(time.monotonic() - began)), flush=True)
    return figure.is_ok


def _interrupted(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*BENCHMARKS, *PEERS, "peers", []], metavar="NAME"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer messages and pairs, as BENCH_QUICK=1"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
