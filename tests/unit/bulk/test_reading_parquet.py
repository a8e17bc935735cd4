"""Parquet by its row groups: each row once, each value as JSON has it, exactly."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.envelope.json_text import parse_json
from spark_jobs.errors import JobError
from spark_jobs.imports import planning, sources
from spark_jobs.imports.mapping import Document, Mapper, Rejected
from spark_jobs.imports.planning import Plan
from tests.unit.bulk.job_requests import import_parameters

STRUCTURE = {"name": "A", "key_paths": ["$.id"]}


def mapped(
    folder: Path, columns: list[dict[str, Any]] | None = None, range_bytes: int = 1_000
) -> list[tuple[int, Document | Rejected]]:
    parameters = import_parameters(
        source=str(folder), format="parquet", columns=columns or [], structure=STRUCTURE
    )
    plan = planning.plan(parameters, range_bytes)
    assert Plan.of(plan.as_json()) == plan
    names = sources.names_of([file for file, *_ in plan.files], parameters)
    found = []
    for part in plan.ranges:
        mapper = Mapper(parameters, names[part.file])
        rows = sources.rows_of(part, parameters, names[part.file])
        found += [(row.line, mapper.map(row)) for row in rows]
    return found


def texts(folder: Path, columns: list[dict[str, Any]] | None = None) -> list[str]:
    found = [one for _, one in mapped(folder, columns)]
    assert all(isinstance(one, Document) for one in found), found
    return [one.text for one in found if isinstance(one, Document)]


def written(folder: Path, name: str = "a.parquet", **columns: Any) -> None:
    table = pa.table({"id": [str(n) for n in range(len(next(iter(columns.values()))))], **columns})
    pq.write_table(table, folder / name)


@pytest.mark.parametrize("range_bytes", [1, 700, 10**9])
def test_every_row_is_read_once_wherever_it_is_cut(tmp_path: Path, range_bytes: int) -> None:
    for name, count in (("a", 95), ("b", 0), ("c", 7)):
        table = pa.table({"id": pa.array([f"{name}{n}" for n in range(count)], pa.string())})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=10)
    found = mapped(tmp_path, range_bytes=range_bytes)
    keys = [one.key for _, one in found if isinstance(one, Document)]
    assert keys == [f"{name}{n}" for name, count in (("a", 95), ("c", 7)) for n in range(count)]
    assert [line for line, _ in found] == [*range(1, 96), *range(1, 8)]


def test_values_keep_their_exact_form(tmp_path: Path) -> None:
    local = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - what has no zone keeps none
    written(
        tmp_path,
        whole=pa.array([2**63 - 1], pa.int64()),
        large=pa.array([2**64 - 1], pa.uint64()),
        money=pa.array([Decimal("12345678901234567890123456.70")], pa.decimal128(38, 2)),
        double=[10_000_000.0],
        single=pa.array([0.1], pa.float32()),
        truth=[False],
        day=[dt.date(2026, 1, 31)],
        local=pa.array([1_769_853_600_123_456_789], pa.timestamp("ns")),
        moment=pa.array([1_769_853_600_500], pa.timestamp("ms", tz="Europe/Berlin")),
        clock=pa.array([3_661_000_001], pa.time64("us")),
        data=[b"\0\1"],
        nested=[{"a": [1, None], "b": {"c": Decimal("1.50"), "at": local}}],
        names=pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        word=pa.array(["w"]).dictionary_encode(),
        nothing=pa.nulls(1),
    )
    assert texts(tmp_path) == [
        (
            '{"id":"0","whole":9223372036854775807,"large":18446744073709551615,'
            '"money":12345678901234567890123456.70,"double":10000000,"single":0.1,"truth":false,'
            '"day":"2026-01-31","local":"2026-01-31T10:00:00.123456789",'
            '"moment":"2026-01-31T10:00:00.500+00:00","clock":"01:01:01.000001","data":"AAE=",'
            '"nested":{"a":[1,null],"b":{"c":1.50,"at":"2026-01-01T00:00:00"}},"names":{"k":1},'
            '"word":"w"}'
        )
    ]


def test_a_map_makes_texts_and_other_kinds_of_them(tmp_path: Path) -> None:
    written(tmp_path, n=[10_000_000.0, 1.5, 1e300], t=["7", "8", "9"], j=['{"a": 1}'] * 3)
    columns = [
        {"source": "id", "target": "id"},
        {"source": "n", "target": "as.text", "kind": "text"},
        {"source": "n", "target": "as.number"},
        {"source": "t", "target": "whole", "kind": "integer"},
        {"source": "j", "target": "more", "kind": "json"},
    ]
    first, second, third = texts(tmp_path, columns)
    assert first == (
        '{"id":"0","as":{"text":"10000000","number":10000000},"whole":7,"more":{"a":1}}'
    )
    assert json.loads(second)["as"] == {"text": "1.5", "number": 1.5}
    assert json.loads(third)["as"]["text"] == "1" + "0" * 300


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
@settings(suppress_health_check=list(HealthCheck))
def test_a_double_is_the_number_that_it_was(tmp_path: Path, values: list[float]) -> None:
    written(tmp_path, n=values)
    found = [parse_json(text, 10) for text in texts(tmp_path)]
    assert [float(one["n"]) for one in found if isinstance(one, dict)] == values
    as_text = [{"source": "id", "target": "id"}, {"source": "n", "target": "n", "kind": "text"}]
    shown = [json.loads(text)["n"] for text in texts(tmp_path, as_text)]
    assert [float(text) for text in shown] == values
    assert not any("e" in text.lower() for text in shown)


def test_what_json_cannot_hold_costs_its_row(tmp_path: Path) -> None:
    written(tmp_path, n=[float("nan"), float("-inf"), 1.0], t=["ok", "ok", "a\0b"])
    found = [one for _, one in mapped(tmp_path)]
    assert [one.flaw.code for one in found if isinstance(one, Rejected)] == [
        "NOT_A_NUMBER",
        "NOT_A_NUMBER",
        "NUL_CHARACTER",
    ]
    assert isinstance(found[0], Rejected)
    assert json.loads(found[0].payload) == {"id": "0", "n": "NaN", "t": "ok"}
    assert json.loads(found[0].shown) == {"id": "0", "n": "NaN", "t": "ok"}


def test_text_that_is_no_utf_8_costs_its_row(tmp_path: Path) -> None:
    data = pa.array([b"good", b"M\xfcller"])
    broken = pa.Array.from_buffers(pa.string(), 2, data.buffers())
    written(tmp_path, t=broken)
    good, bad = (one for _, one in mapped(tmp_path))
    assert isinstance(good, Document)
    assert isinstance(bad, Rejected)
    assert (bad.flaw.code, bad.payload) == ("BAD_ENCODING", b'{"id":"1","t":"M\xfcller"}')


def test_a_row_that_is_far_too_large_is_cut(tmp_path: Path) -> None:
    written(tmp_path, t=["x" * 50_000_000, "y"])
    large, small = (one for _, one in mapped(tmp_path))
    assert isinstance(large, Rejected)
    assert (large.flaw.code, len(large.payload)) == ("ROW_TOO_LONG", 2**20)
    assert isinstance(small, Document)


def refusal(folder: Path, columns: list[dict[str, Any]] | None = None) -> JobError:
    with pytest.raises(JobError) as told:
        mapped(folder, columns)
    return told.value


def test_another_schema_in_one_file_of_a_folder_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "a.parquet", n=[1], more=[1])
    written(tmp_path, "b.parquet", n=pa.array([1], pa.int8()))
    by_name = [{"source": "id", "target": "id"}, {"source": "n", "target": "n"}]
    assert len(mapped(tmp_path, by_name)) == 2, "what is not read may differ, and widths may"
    assert refusal(tmp_path).code == "UNKNOWN_COLUMN"
    assert refusal(tmp_path, [*by_name, {"source": "more", "target": "m"}]).code == "UNKNOWN_COLUMN"
    written(tmp_path, "b.parquet", n=["one"])
    told = refusal(tmp_path, by_name)
    assert told.code == "COLUMN_TYPE"
    assert "'n' is a whole number in" in told.text
    assert "text in" in told.text


def test_a_type_that_json_has_no_form_of_is_refused(tmp_path: Path) -> None:
    written(tmp_path, span=pa.array([1], pa.duration("s")))
    assert refusal(tmp_path).code == "COLUMN_TYPE"
    assert mapped(tmp_path, [{"source": "id", "target": "id"}])


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no Parquet at all")
    assert refusal(tmp_path).code == "UNREADABLE_FILE"
