"""The messages of the benchmarks: believable assets of about 300 bytes, the same for both sides."""

import csv
import json
import random
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final

MESSAGE_BYTES: Final = 300
_PLACES: Final = ("NORTH", "SOUTH", "HARBOUR", "RIDGE")
_STATES: Final = ("OPERATING", "STANDBY", "REPAIR")
_NAMES: Final = ("Centrifugal pump", "Gate valve", "Heat exchanger", "Conveyor drive")

# Of files for bulk jobs: the name of each column, its kind, and whether it is required.
COLUMNS: Final = (
    ("assetnum", "text", True),
    ("siteid", "text", True),
    ("description", "text", False),
    ("status", "text", False),
    ("purchaseprice", "number", False),
    ("runhours", "integer", False),
    ("bought", "date", False),
    ("remark", "text", False),
)
KEY_COLUMNS: Final = ("assetnum", "siteid")
# One row in so many has no site.
ONE_BAD_IN: Final = 100

Row = tuple[str, str, str, str, Decimal, Decimal, str, int]


def asset(seq: int, keys: int, marks: Mapping[str, object] | None = None) -> bytes:
    """One asset document; `marks` tell the handler to fail, and are part of the 300 bytes."""
    chance = random.Random(seq)
    text = json.dumps(
        {
            "assetnum": f"A-{chance.randrange(keys):08d}",
            "siteid": chance.choice(_PLACES),
            "seq": seq,
            "description": f"{chance.choice(_NAMES)}, circuit {chance.randrange(40)}",
            "status": chance.choice(_STATES),
            "purchaseprice": chance.randrange(1_000_000) / 100,
            "meter": {"name": "RUNHOURS", "reading": chance.randrange(10_000_000) / 100},
            "changedate": f"2026-03-{1 + seq % 28:02d}T09:30:00+00:00",
            **(marks or {}),
        },
        separators=(",", ":"),
    )
    filler = MESSAGE_BYTES - len(text) - len(',"remark":""')
    return f'{text[:-1]},"remark":"{"x" * max(filler, 0)}"}}'.encode()


def assets(count: int, keys: int) -> Iterator[bytes]:
    for seq in range(count):
        yield asset(seq, keys)


def with_failures(count: int, keys: int, failing: Mapping[int, str]) -> Iterator[bytes]:
    """Assets of which some fail: seq -> "once" (at the first attempt) or "always"."""
    for seq in range(count):
        kind = failing.get(seq)
        yield asset(seq, keys, {"fails": kind} if kind else None)


def pick(count: int, share: float, seed: int) -> dict[int, str]:
    """A seeded random share of the messages, failing always."""
    chance = random.Random(seed)
    return {seq: "always" for seq in range(count) if chance.random() < share}


def ping(seq: int) -> bytes:
    """A message that knows when it was sent, by the clock that this machine's servers share."""
    return json.dumps({"seq": seq, "sent_at": time.time()}).encode()


def row_of(body: Mapping[str, object]) -> Row:
    """The columns of bench_asset that come from a parsed document."""
    meter = body["meter"]
    return (  # type: ignore[return-value] # the document is ours
        body["assetnum"],
        body["siteid"],
        body["description"],
        body["status"],
        body["purchaseprice"],
        meter["reading"],  # type: ignore[index]
        body["changedate"],
        body["seq"],
    )


def csv_files(folder: Path, count: int, files: int) -> Path:
    """Write so many assets to CSV files of a folder, each with a header. No key is there twice."""
    folder.mkdir()
    per_file = -(-count // files)
    for number, first in enumerate(range(0, count, per_file)):
        with (folder / f"assets-{number:02d}.csv").open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow([name for name, _, _ in COLUMNS])
            writer.writerows(map(csv_row, range(first, min(first + per_file, count))))
    return folder


def csv_row(seq: int) -> tuple[object, ...]:
    """One asset as a row of such a file."""
    # A permutation of the numbers: keys come in no order, as partners write them.
    scattered = seq * 2_654_435_761 % 2**32
    return (
        f"A-{scattered:010d}",
        "" if seq % ONE_BAD_IN == 0 else _PLACES[seq % len(_PLACES)],
        f"{_NAMES[scattered % len(_NAMES)]}, circuit {scattered % 40}",
        _STATES[scattered % len(_STATES)],
        f"{scattered % 1_000_000 / 100:.2f}",
        scattered % 10_000_000,
        f"2026-{1 + seq % 12:02d}-{1 + seq % 28:02d}",
        'says "mind the step"' if seq % 10 == 0 else "",
    )
