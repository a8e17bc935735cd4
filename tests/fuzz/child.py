"""One target in a process of its own, which atheris ends in its own way."""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NoReturn

import atheris

with atheris.instrument_imports(include=["integration", "crontasks"]):
    from tests.fuzz.targets import DOCUMENTED, TARGETS

from tests.fuzz.growing import Slowest

LONGEST_INPUT = 4_096
# Of one input.
LONGEST_SECONDS = 10
MEMORY_MB = 2_048


class UndocumentedCodeError(Exception):
    """A code came that no page of the documentation has."""


class Child:
    """Reads what atheris makes up until its time is over; prints codes and slowest inputs."""

    def __init__(self, name: str, seconds: float) -> None:
        self.target = TARGETS[name]
        self.until = time.monotonic() + seconds
        self.codes: Counter[str] = Counter()
        self.slowest = Slowest()
        self.runs = 0

    def one_input(self, data: bytes) -> None:
        began = time.process_time()
        for code in self.target.read(data):
            if code not in DOCUMENTED:
                raise UndocumentedCodeError(code)
            self.codes[code] += 1
        self.slowest.note(data, time.process_time() - began)
        self.runs += 1
        if time.monotonic() > self.until:
            self._end()

    def _end(self) -> NoReturn:
        line = {
            "runs": self.runs,
            "codes": dict(self.codes.most_common()),
            "slowest": [data.hex() for data in self.slowest.inputs()],
        }
        print(json.dumps(line), flush=True)
        # The library would count its own end as a failure.
        os._exit(0)


def main() -> None:
    """Arguments: target, seconds, seed, and a folder for inputs."""
    name, seconds, seed, folder = sys.argv[1:]
    corpus = Path(folder) / "corpus"
    corpus.mkdir()
    for number, text in enumerate(TARGETS[name].seeds):
        (corpus / f"seed-{number}").write_bytes(text)
    child = Child(name, float(seconds))
    options = {
        "max_len": LONGEST_INPUT,
        "timeout": LONGEST_SECONDS,
        "rss_limit_mb": MEMORY_MB,
        "seed": seed,
        "artifact_prefix": f"{folder}/",
        "verbosity": 0,
    }
    words = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([name, *words, str(corpus)], child.one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
