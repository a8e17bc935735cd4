"""Files cut into ranges: together they are the file, and each row is read once, with its line."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.contract import Progress
from spark_jobs.errors import JobError, Stopped
from spark_jobs.imports import planning, sources
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.reading import header_of, rows
from spark_jobs.imports.rows import LARGEST_ROW_CHARACTERS, Row
from tests.unit.bulk.job_requests import import_parameters

FIELDS = st.text(alphabet='ab,"\n\r é', max_size=8)


def read(path: Path, parameters: ImportParameters, range_bytes: int) -> list[Row]:
    plan = planning.plan(parameters, range_bytes)
    assert Plan.of(plan.as_json()) == plan
    _cover(plan, path)
    width = len(header_of(str(path), parameters)) if parameters.format == "csv" else 0
    return [row for part in plan.ranges for row in rows(part, parameters, width)]


def _cover(plan: Plan, path: Path) -> None:
    data = path.read_bytes()
    place = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    for part in plan.ranges:
        assert part.begin == place
        place = part.end
    assert place == len(data)


def a_file(folder: Path, data: bytes, name: str = "rows.csv", **more: Any) -> ImportParameters:
    (folder / name).write_bytes(data)
    return import_parameters(source=str(folder / name), **more)


@given(
    table=st.lists(st.lists(FIELDS, min_size=3, max_size=3), min_size=1, max_size=30),
    range_bytes=st.integers(1, 60),
)
@settings(suppress_health_check=list(HealthCheck))
def test_every_row_of_a_csv_is_read_once_wherever_it_is_cut(
    tmp_path: Path, table: list[list[str]], range_bytes: int
) -> None:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *table])
    parameters = a_file(tmp_path, written.getvalue().encode())
    found = read(tmp_path / "rows.csv", parameters, range_bytes)
    assert [list(row.values) for row in found] == table
    assert not any(row.flaw for row in found)


@given(
    lines=st.lists(st.text(alphabet='a,;"\r\x0b\x85 é', max_size=8), max_size=12),
    end=st.sampled_from(["\n", "\r\n", ""]),
    delimiter=st.sampled_from(",;"),
)
@settings(suppress_health_check=list(HealthCheck))
def test_a_line_without_a_quote_is_what_the_reader_of_csv_takes_it_for(
    tmp_path: Path, lines: list[str], end: str, delimiter: str
) -> None:
    alone = [line for line in lines if '"' not in line]
    text = "".join(f"{line}\n" for line in ["h", *alone]) + f"a{end}"
    parameters = a_file(tmp_path, text.encode(), delimiter=delimiter)
    found = {row.line: row for row in read(tmp_path / "rows.csv", parameters, 10)}
    for number, line in enumerate([*alone, f"a{end}"], 2):
        reader = csv.reader([line], delimiter=delimiter, strict=True)
        try:
            wanted = next(reader, [])
        except csv.Error:
            assert found[number].flaw is not None
        else:
            row = found.get(number)
            values = [] if row is None else row.text.split(delimiter)
            assert values == wanted
            assert row is None or len(wanted) != 1 or list(row.values) == wanted


def test_a_row_has_the_line_it_begins_on(tmp_path: Path) -> None:
    data = b'a,b\n1,"x\ny"\n2,z\n\n3,"q"\n'
    for range_bytes in (1, 5, 1_000):
        found = read(tmp_path / "rows.csv", a_file(tmp_path, data), range_bytes)
        assert [(row.line, row.values[0]) for row in found] == [(2, "1"), (4, "2"), (6, "3")]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    parameters = a_file(tmp_path, b"\xef\xbb\xbfa,b\n1,2\n")
    assert header_of(f"{tmp_path}/rows.csv", parameters) == ["a", "b"]
    assert [row.values for row in read(tmp_path / "rows.csv", parameters, 4)] == [["1", "2"]]


def test_a_wrong_number_of_columns_costs_that_row(tmp_path: Path) -> None:
    found = read(tmp_path / "rows.csv", a_file(tmp_path, b"a,b\n1\n1,2\n1,2,3\n"), 100)
    assert [row.flaw and row.flaw.code for row in found] == ["COLUMN_COUNT", None, "COLUMN_COUNT"]
    assert found[2].raw == b"1,2,3"


def test_one_missing_quote_costs_one_row(tmp_path: Path) -> None:
    data = b'a,b\n1,"x\n2,y\n3,z\n'
    found = read(tmp_path / "rows.csv", a_file(tmp_path, data), 100)
    assert [(row.line, row.flaw and row.flaw.code) for row in found] == [
        (2, "BAD_CSV"),
        (3, None),
        (4, None),
    ]


def test_latin_1_is_read_where_it_is_said_and_rejected_where_it_is_not(tmp_path: Path) -> None:
    data = "a,b\nMüller,1\nSmith,2\n".encode("latin-1")
    said = a_file(tmp_path, data, encoding="latin-1")
    assert [row.values[0] for row in read(tmp_path / "rows.csv", said, 100)] == ["Müller", "Smith"]
    found = read(tmp_path / "rows.csv", a_file(tmp_path, data), 100)
    assert [row.flaw and row.flaw.code for row in found] == ["BAD_ENCODING", None]
    assert found[0].raw == b"M\xfcller,1", "what cannot be read is kept as it was"


def test_a_nul_character_costs_its_row(tmp_path: Path) -> None:
    found = read(tmp_path / "rows.csv", a_file(tmp_path, b"a,b\n1,x\0\n2,y\n"), 100)
    assert [row.flaw and row.flaw.code for row in found] == ["NUL_CHARACTER", None]


def test_a_line_of_fifty_megabytes_costs_itself(tmp_path: Path) -> None:
    data = b"a,b\n1," + b"x" * 50_000_000 + b"\n2,y\n"
    found = read(tmp_path / "rows.csv", a_file(tmp_path, data), 1_000_000)
    assert [row.flaw and row.flaw.code for row in found] == ["ROW_TOO_LONG", None]
    assert len(found[0].text) == LARGEST_ROW_CHARACTERS


@given(
    documents=st.lists(st.dictionaries(st.sampled_from("abc"), st.text(max_size=5)), max_size=20),
    range_bytes=st.integers(1, 60),
)
@settings(suppress_health_check=list(HealthCheck))
def test_every_line_of_json_is_read_once(
    tmp_path: Path, documents: list[dict[str, str]], range_bytes: int
) -> None:
    import json  # noqa: PLC0415 - beside its only use

    lines = [json.dumps(one) for one in documents]
    parameters = a_file(tmp_path, "\n".join(lines).encode(), "rows.jsonl", format="jsonl")
    found = read(tmp_path / "rows.jsonl", parameters, range_bytes)
    assert [row.text for row in found] == lines


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_bytes(b"")
    with pytest.raises(JobError) as told:
        planning.plan(import_parameters(source=str(tmp_path)))
    assert told.value.code == "NO_SOURCE"


def test_a_folder_and_a_pattern_are_all_their_files(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden", "other.txt"):
        (tmp_path / name).write_bytes(b"a\n1\n")
    by_pattern = planning.plan(import_parameters(source=f"{tmp_path}/*.csv"))
    assert [Path(name).name for name, *_ in by_pattern.files] == ["a.csv", "b.csv"]
    whole = planning.plan(import_parameters(source=str(tmp_path)))
    assert [Path(name).name for name, *_ in whole.files] == ["a.csv", "b.csv", "other.txt"]


def test_a_file_that_changed_is_not_what_was_planned(tmp_path: Path) -> None:
    plan = planning.plan(a_file(tmp_path, b"a\n1\n")).as_json()
    (tmp_path / "rows.csv").write_bytes(b"a\n1\n2\n")
    with pytest.raises(JobError) as told:
        Plan.of(plan).check()
    assert told.value.code == "SOURCE_CHANGED"


def test_planning_ends_with_the_file_or_the_block_at_which_nobody_wants_it_any_more(
    tmp_path: Path,
) -> None:
    asked: list[Progress | None] = []

    def heed(progress: Progress | None) -> None:
        asked.append(progress)
        if progress and progress.done == 2:
            raise Stopped

    for number in range(100):
        (tmp_path / f"{number}.csv").write_bytes(b"a\n1\n")
    several = import_parameters(source=f"{tmp_path}/*.csv")
    (tmp_path / "large.jsonl").write_bytes(b"{}\n" * 2**20)
    large = import_parameters(source=f"{tmp_path}/*.jsonl", format="jsonl", columns=())
    for parameters, done in ((several, [0, 0, 0, 1, 1, 1, 2]), (large, [0, 1, 2])):
        asked.clear()
        with pytest.raises(Stopped):
            planning.plan(parameters, 2**20, heed=heed)
        parts = 100 if parameters is several else 3
        told = [one and (one.stage, one.done, one.total) for one in asked]
        assert told == [("plan", place, parts) for place in done]


def test_names_are_read_until_nobody_wants_them_any_more(tmp_path: Path) -> None:
    parameters = a_file(tmp_path, b"a\n1\n")

    def heed(_: Progress | None) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        sources.names_of([str(tmp_path / "none.csv")], parameters, heed=heed)
    with pytest.raises(Stopped):
        planning.plan(parameters).check(heed=heed)


def test_a_file_of_which_all_is_staged_is_not_looked_at_again(tmp_path: Path) -> None:
    for name, content in (("a.csv", b"a\n1\n"), ("b.csv", b"a\n1\n"), ("empty.csv", b"")):
        (tmp_path / name).write_bytes(content)
    plan = planning.plan(import_parameters(source=str(tmp_path)))
    assert plan.without(()) == plan
    (tmp_path / "a.csv").unlink()
    left = plan.without({0})
    left.check()
    assert [part.file for part in left.ranges] == [f"{tmp_path}/b.csv"]
    (tmp_path / "empty.csv").write_bytes(b"a\n2\n")
    with pytest.raises(JobError) as told:
        left.check()
    assert told.value.code == "SOURCE_CHANGED", "it had no rows when it was planned"
    plan.without({0, 1}).check()


def test_lines_that_end_with_cr_alone_are_told_and_not_passed_over(tmp_path: Path) -> None:
    parameters = a_file(tmp_path, b"a,b\r1,2\r3,4\r")
    with pytest.raises(JobError) as told:
        header_of(f"{tmp_path}/rows.csv", parameters)
    assert told.value.code == "NO_HEADER"


@pytest.mark.parametrize("data", ["a,Größe\n1,2\n".encode("cp1252"), "a,b\n".encode("utf-16")])
def test_a_header_that_is_no_text_is_told(tmp_path: Path, data: bytes) -> None:
    parameters = a_file(tmp_path, data)
    with pytest.raises(JobError) as told:
        header_of(f"{tmp_path}/rows.csv", parameters)
    assert told.value.code == "NO_HEADER"


def test_the_folder_of_a_writer_at_work_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "_temporary" / "0").mkdir(parents=True)
    for name in ("part-0.csv", "_temporary/0/part-1.csv"):
        (tmp_path / name).write_bytes(b"a\n1\n")
    whole = planning.plan(import_parameters(source=str(tmp_path)))
    assert [Path(name).name for name, *_ in whole.files] == ["part-0.csv"]


def test_what_lies_between_two_missing_quotes_is_kept_line_by_line(tmp_path: Path) -> None:
    data = b'a,b\n1,"x\n2,y\n3,"z\n4,w\n'
    found = read(tmp_path / "rows.csv", a_file(tmp_path, data), 100)
    assert [(row.line, row.text, row.flaw and row.flaw.code) for row in found] == [
        (2, '1,"x', "BAD_CSV"),
        (3, "2,y", "BAD_CSV"),
        (4, '3,"z', "BAD_CSV"),
        (5, "4,w", None),
    ]


def test_so_is_what_they_make_too_long_for_one_row(tmp_path: Path) -> None:
    lines = [b"%d,%s" % (number, b"y" * 100) for number in range(20_000)]
    data = b'a,b\n1,"x\n' + b"\n".join(lines) + b'\n3,z"\n4,w\n'
    found = read(tmp_path / "rows.csv", a_file(tmp_path, data), 100_000_000)
    assert len(found) == len(lines) + 3
    assert [row.flaw for row in found if row.flaw is None] == [None]
