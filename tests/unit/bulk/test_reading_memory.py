"""However large a file, a line or a record is, reading it takes little: told by a new process."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.architecture.sources import ROOT
from tests.support.parquet import a_parquet

# 50 MB and more are in most files, and none of them may lie in memory as a whole. They are few long
# rows or elements: a row costs the reader time, and its length does not.
LINE = "x" * 50_000_000
LONG = "x" * 1_000
MOST_MB = 40
BY_NUMBER = {"name": "ASSET", "key_paths": ["$.assetnum"]}
PROGRAM = """
import json, sys
from collections import Counter
from pathlib import Path
from spark_jobs.imports import planning, sources
from spark_jobs.imports.mapping import Document, Mapper
from tests.unit.bulk.job_requests import import_parameters

def peak():
    # Of this program alone: getrusage tells at least what the tester had, who began it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

parameters = import_parameters(**json.loads(sys.argv[1]))
plan = planning.plan(parameters)
names = sources.names_of([part.file for part in plan.ranges], parameters)
before = peak()
found = Counter()
for part in plan.ranges:
    mapper = Mapper(parameters, names[part.file])
    for row in sources.rows_of(part, parameters, names[part.file]):
        became = mapper.map(row)
        found["good" if isinstance(became, Document) else str(became.flaw.code)] += 1
print(json.dumps([found, (peak() - before) / 1024]))
"""


def measured(path: Path, **parameters: Any) -> tuple[dict[str, int], float]:
    said = json.dumps({"source": str(path), **parameters})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, said], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, grown = json.loads(done.stdout)
    print(f"grown by {grown:.0f} MB")
    return found, grown


def a_long_line(path: Path) -> dict[str, int]:
    path.write_text(f"a,b\nA,B\nA,{LINE}\nC,D\n")
    return {"good": 2, "ROW_TOO_LONG": 1}


def what_two_lost_quotes_enclose(path: Path) -> dict[str, int]:
    lines = ("1" * 500 + ",2\n") * 100_000
    path.write_text(f'a,b\nA,B\nA,"B\n{lines}C,D"\nE,F\n')
    return {"good": 2, "BAD_CSV": 100_002}


def many_rows(path: Path) -> dict[str, int]:
    """Short ones, more than a range: as values each takes six times what it takes in the file."""
    row = "A" * 40 + "," + "B" * 40 + "\n"
    path.write_text("a,b\n" + row * 120_000)
    return {"good": 120_000}


@pytest.mark.parametrize("write", [a_long_line, what_two_lost_quotes_enclose, many_rows])
def test_of_csv(write: Callable[[Path], dict[str, int]], tmp_path: Path) -> None:
    wanted = write(tmp_path / "a.csv")
    found, grown_mb = measured(tmp_path / "a.csv")
    assert found == wanted
    assert grown_mb < MOST_MB


def test_of_lines_of_json(tmp_path: Path) -> None:
    good = '{"assetnum": 1, "siteid": "B"}'
    (tmp_path / "a.jsonl").write_text(f'{good}\n{{"a": "{LINE}"}}\n{good}\n')
    found, grown_mb = measured(tmp_path / "a.jsonl", format="jsonl", columns=[])
    assert found == {"good": 2, "ROW_TOO_LONG": 1}
    assert grown_mb < MOST_MB


def test_of_xml(tmp_path: Path) -> None:
    """Junk between the records, and a record that grows beyond every row, are let go."""
    good = "<ASSET><NUM>1</NUM><SITE>B</SITE></ASSET>"
    with (tmp_path / "a.xml").open("w") as out:
        out.write(f"<A>\n{good}\n")
        out.writelines(f"<JUNK><a>{LONG}</a></JUNK>\n" for _ in range(100_000))
        out.write("<ASSET>")
        out.writelines(f"<x>{LONG}</x>\n" for _ in range(100_000))
        out.write(f"</ASSET>\n{good}</A>")
    columns = [{"source": "NUM", "target": "assetnum"}, {"source": "SITE", "target": "siteid"}]
    found, grown_mb = measured(tmp_path / "a.xml", format="xml", record="ASSET", columns=columns)
    assert found == {"good": 2, "ROW_TOO_LONG": 1}
    # As a tree the junk takes some 140 MB, and so much again what is in the record.
    assert grown_mb < 2 * MOST_MB


def test_of_parquet(tmp_path: Path) -> None:
    """One row group of 150 MB, which lies compressed on the disk."""
    count = 50_000
    a_parquet(
        tmp_path / "a.parquet",
        rows=count,
        a=[f"A-{n}" for n in range(count)],
        b=pa.array(["B" * 3_000] * count),
    )
    columns = [{"source": "a", "target": "assetnum"}, {"source": "b", "target": "text"}]
    found, grown_mb = measured(
        tmp_path / "a.parquet", format="parquet", columns=columns, structure=BY_NUMBER
    )
    assert found == {"good": count}
    assert grown_mb < 2 * MOST_MB


@pytest.mark.parametrize("shape", ["text", "list", "object"])
def test_of_a_long_text_that_parquet_stores_once(shape: str, tmp_path: Path) -> None:
    """1 MB in the file, and as much in each of 120 rows."""
    count = 120
    places = pa.array([0] * count, pa.int32())
    texts: Any = pa.DictionaryArray.from_arrays(places, pa.array(["B" * 1_000_000]))
    if shape == "list":
        texts = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), texts)
    elif shape == "object":
        texts = pa.StructArray.from_arrays([texts], names=["in"])
    a_parquet(tmp_path / "a.parquet", rows=count, a=[f"A-{n}" for n in range(count)], b=texts)
    columns = [{"source": "a", "target": "assetnum"}, {"source": "b", "target": "text"}]
    found, grown_mb = measured(
        tmp_path / "a.parquet", format="parquet", columns=columns, structure=BY_NUMBER
    )
    assert found == {"good": count}
    assert grown_mb < 2 * MOST_MB
