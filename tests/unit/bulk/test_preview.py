"""What an import would make of the first rows, told without Spark and without a database."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract import Arguments, Preview
from spark_jobs.errors import JobError
from spark_jobs.imports import sources
from spark_jobs.running import preview
from tests.unit.bulk.job_requests import COLUMNS, STRUCTURE


def previewed(source: Path, **more: object) -> Preview:
    parameters = {
        "source": str(source),
        "format": "csv",
        "structure": STRUCTURE,
        "arrival": 0,
        "rejects_queue": 1,
        "columns": COLUMNS,
        **more,
    }
    return preview(Arguments(job="import", run="", parameters=parameters, database=""))


def test_the_first_rows_are_shown_with_what_becomes_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\nA-1,B,x\nA-2,,x\nA-3,B\n")

    found = previewed(tmp_path / "a.csv")

    assert found.columns == ["a", "b", "c"]
    assert [(one.place, one.ends, one.code) for one in found.samples] == [
        ("line 2", "stored", ""),
        ("line 3", "rejected", "NO_KEY"),
        ("line 4", "rejected", "COLUMN_COUNT"),
    ]
    assert found.samples[0].text == '{"assetnum":"A-1","siteid":"B"}'
    assert (found.rows, found.bytes, found.facts) == (3, 27, {"files": 1})


def test_rows_beyond_what_is_looked_at_are_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LOOKED_AT_BYTES", 1_000)
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("a,b\n" + "A-1,BEDFORD\n" * 2_000)

    found = previewed(tmp_path)

    assert len(found.samples) == 20
    assert found.rows is not None
    assert 3_900 <= found.rows <= 4_000
    assert found.facts == {"files": 2}


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    found = previewed(tmp_path, format="jsonl", columns=())
    assert (found.samples, found.rows, found.bytes) == ([], 0, 0)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(JobError) as told:
        previewed(tmp_path)
    assert told.value.code == "NO_SOURCE"
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(JobError) as told:
        previewed(tmp_path)
    assert told.value.code == "UNKNOWN_COLUMN"


def test_records_of_xml_are_shown_with_the_names_that_a_map_may_use(tmp_path: Path) -> None:
    record = '<ASSET id="1"><NUM>A</NUM><LOCATION><SITE>B</SITE></LOCATION></ASSET>\n'
    (tmp_path / "a.xml").write_text(f"<ASSETS>{record * 3_000}<ASSET>")
    found = previewed(
        tmp_path,
        format="xml",
        record="ASSET",
        columns=[
            {"source": "NUM", "target": "assetnum"},
            {"source": "LOCATION/SITE", "target": "siteid"},
        ],
    )
    assert found.columns == ["@id", "NUM", "LOCATION/SITE"]
    assert (len(found.samples), found.samples[0].ends) == (20, "stored")
    assert found.samples[0].text == '{"assetnum":"A","siteid":"B"}'
    assert found.rows is not None
    assert 2_700 < found.rows < 3_300, "estimated by what was looked at"
    assert found.facts == {"files": 1, "root": "ASSETS"}


@pytest.mark.parametrize("name", ["asset", "ASSET"])
def test_of_xml_without_the_record_the_beginning_is_looked_at(tmp_path: Path, name: str) -> None:
    """By another name, or with none behind the first: neither is a reason to read it all."""
    (tmp_path / "a.xml").write_text(f"<ALL><ASSET/>{'<MORE/>' * 400_000}</BROKEN>")
    columns = [{"source": "NUM", "target": "assetnum"}]
    found = previewed(tmp_path, format="xml", record=name, columns=columns)
    assert [one.code for one in found.samples] == (["NO_KEY"] if name == "ASSET" else [])
    assert (found.rows is None) == (name == "asset"), "where there is none, nothing is known"


def test_a_record_of_xml_that_began_is_looked_at_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(f"<ALL><ASSET><NUM>{'x' * 500_000}</NUM></ASSET></ALL>")
    columns = [{"source": "NUM", "target": "assetnum"}]
    found = previewed(tmp_path, format="xml", record="ASSET", columns=columns)
    assert [one.text[:14] for one in found.samples] == ['{"assetnum":"x']


def test_a_record_of_xml_that_is_too_large_is_told_before_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(f"<ALL><ASSET>{'<MORE/>' * 400_000}</BROKEN>")
    columns = [{"source": "NUM", "target": "assetnum"}]
    found = previewed(tmp_path, format="xml", record="ASSET", columns=columns)
    assert [(one.place, one.code) for one in found.samples] == [("line 1", "ROW_TOO_LONG")]


def test_of_many_files_of_parquet_the_first_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_FOOTERS", 2)
    for name in ("a", "b", "c", "d"):
        pq.write_table(pa.table({"num": ["A"] * 500, "site": ["B"] * 500}), tmp_path / name)
    (tmp_path / "d").write_bytes((tmp_path / "c").read_bytes()[:-1] + b"?")
    columns = [{"source": "num", "target": "assetnum"}, {"source": "site", "target": "siteid"}]
    found = previewed(tmp_path, format="parquet", columns=columns)
    assert (found.rows, found.facts) == (2_000, {"files": 4})


def test_rows_of_parquet_are_counted_by_the_footers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        table = pa.table({"num": ["A"] * 500, "site": ["B"] * 500, "weight": [1.5] * 500})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    columns = [{"source": "num", "target": "assetnum"}, {"source": "site", "target": "siteid"}]
    found = previewed(tmp_path, format="parquet", columns=columns)
    assert (found.rows, len(found.samples)) == (1_000, 20)
    assert found.columns == ["num", "site", "weight"]
    assert found.samples[0].place == "row 1"
    assert found.samples[0].text == '{"assetnum":"A","siteid":"B"}'
