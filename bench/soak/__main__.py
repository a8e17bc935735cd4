"""`python -m bench.soak --seconds 3600`: half of what the machine can do, for long; one JSON line.

Exit code 1 unless nothing is lost, doubled or disordered, nothing is left over, and memory,
threads, files, sessions and locks have not grown since the first ten minutes.
"""

import argparse
import json
import sys

from bench import interrupting
from bench.ground import prepared
from bench.soak.run import Soak, shortcomings


def main() -> int:
    """Carry out the soak and print its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3_600)
    options = parser.parse_args()
    interrupting.heed()
    with prepared(quick=False) as ground, ground.rig("soak") as rig:
        line = Soak(rig, options.seconds).carry_out()
        wrong = shortcomings(line)
        interrupting.keep(rig.folder, wrong)
    print(json.dumps(line), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
