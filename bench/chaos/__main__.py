"""`python -m bench.chaos --seconds 600 --seed x`: a bad time for every process, one JSON line.

Workers, beats, relays and the web run by their shipped commands on fresh servers, and everything
that may die does. Exit code 1 unless nothing was lost, doubled or disordered, nothing is left over,
and nothing that was to go wrong was left out.
"""

import argparse
import json
import sys

from bench import interrupting
from bench.chaos import verdict
from bench.chaos.run import ChaosRun
from bench.ground import prepared

# For what is before and after the faults; on a machine that others use, too, that takes long.
LONGEST_SECONDS = 1_800


def main() -> int:
    """Carry out the run and print its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    interrupting.heed(options.seconds + LONGEST_SECONDS)
    with prepared(quick=False) as ground, ground.rig("chaos") as rig:
        run = ChaosRun(rig, ground.servers, options.seconds, options.seed)
        line = run.carry_out()
        interrupting.in_time()
        wrong = verdict.shortcomings(line)
        if wrong:
            run.write_findings()
        interrupting.keep(rig.folder, wrong)
    print(json.dumps(line), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
