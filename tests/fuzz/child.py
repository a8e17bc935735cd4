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

from tests.fuzz.growing import MOST_GROWTH, Slowest, worst

LONGEST_INPUT = 4_096
# Of one input.
LONGEST_SECONDS = 10
MEMORY_MB = 2_048


class UndocumentedCodeError(Exception):
    """A code came that no page of the documentation has."""


class Child:
    """Reads what atheris makes up until its time is over, then prints what it has seen."""

    def __init__(self, name: str, seconds: float, seed: int) -> None:
        self.target = TARGETS[name]
        self.seed = seed
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
        inputs = [*self.target.seeds, *self.slowest.inputs()]
        growth = worst(lambda data: list(self.target.read(data)), inputs, self.seed)
        line = {
            "ok": growth.ratio <= MOST_GROWTH,
            "runs": self.runs,
            "codes": dict(self.codes.most_common()),
            "growth": round(growth.ratio, 2),
        }
        if not line["ok"]:
            line["grows"] = [part.hex() for part in growth[1:]]
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
    child = Child(name, float(seconds), int(seed))
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
