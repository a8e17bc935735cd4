"""Reads the samples of BENCH_PROFILE: `python -m bench.stacks FOLDER MESSAGES` lists the costs.

Two lists, in microseconds per message: time spent in a line itself (with the C code it calls),
and time spent in a function with everything it calls.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Final

SHOWN: Final = 45


def main() -> None:
    """Print both lists of the samples in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("messages", type=int, help="how many were settled while sampled")
    parser.add_argument("--below", default="attempt.py", help="only stacks that pass through this")
    options = parser.parse_args()
    own, whole = read(options.folder, options.below)
    print(f"total {sum(own.values()) / options.messages:.1f} us per message")
    for title, counted in (("in the line itself", own), ("with everything below", whole)):
        print(f"\n{title}")
        for place, microseconds in counted.most_common(SHOWN):
            print(f"{microseconds / options.messages:8.2f}  {place}")


def read(folder: Path, below: str) -> tuple[Counter[str], Counter[str]]:
    """Sum up all sampled stacks that contain `below`: by innermost line, by function."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for file in folder.glob("stacks-*.txt"):
        for line in file.read_text().splitlines():
            stack, _, microseconds = line.rpartition(" ")
            if below in stack:
                places = stack.split(";")
                own[places[-1]] += int(microseconds)
                inside = places[next(n for n, place in enumerate(places) if below in place) :]
                whole.update(dict.fromkeys(map(_function, inside), int(microseconds)))
    return own, whole


def _function(place: str) -> str:
    file, _, rest = place.partition(":")
    return f"{file}:{rest.partition(':')[2]}"


if __name__ == "__main__":
    main()
