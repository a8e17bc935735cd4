"""What an export writes of a row, without a database."""

import csv
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.errors import JobError
from spark_jobs.exports.parameters import ExportParameters
from spark_jobs.exports.payloads import Payload
from spark_jobs.exports.selecting import json_path, selection
from spark_jobs.exports.shaping import csv_lines, harmless, json_lines, moment
from spark_jobs.exports.writing import count_rows
from spark_jobs.tables.columns import Column, ColumnKind
from spark_jobs.tables.ranges import within

pytestmark = pytest.mark.fast


def parameters(**fields: Any) -> ExportParameters:
    said = {"what": "documents", "format": "csv", "folder": "/nowhere", "structure": 1}
    return ExportParameters.of(said | fields)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("-5", "-5"),
        ("+12.50", "+12.50"),
        ("A=1", "A=1"),
        ("", ""),
    ],
)
def test_a_formula_is_quoted_and_a_number_is_not(text: str, written: str) -> None:
    assert harmless(text) == written


def test_rows_of_csv_are_counted_in_their_file(tmp_path: Path) -> None:
    columns = [Column("a", ColumnKind.TEXT, ""), Column("b", ColumnKind.TEXT, "")]
    rows = [["1", "x\r\ny"], ['say "hi"\n', "z"], ["", ""], ["\r", '"']]
    text = csv_lines(columns, parameters())([["a", "b"], *rows])
    (tmp_path / "part.csv").write_bytes(text.encode())

    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == rows
    assert count_rows(tmp_path / "part.csv", parameters()) == len(rows)


def test_a_line_of_json_has_each_value_as_what_it_is() -> None:
    columns = [
        Column('t"x', ColumnKind.TEXT, ""),
        Column("j", ColumnKind.JSON, ""),
        Column("n", ColumnKind.WHOLE, ""),
        Column("f", ColumnKind.FLAG, ""),
        Column("m", ColumnKind.MOMENT, ""),
        Column("z", ColumnKind.TEXT, ""),
    ]
    (line,) = json_lines(columns)([["a\nb", '{"x": 1.50}', 7, True, 0, None]]).splitlines()
    assert '"j":{"x": 1.50}' in line
    assert json.loads(line) == {
        't"x': "a\nb",
        "j": {"x": 1.5},
        "n": 7,
        "f": True,
        "m": "1970-01-01T00:00:00.000000Z",
        "z": None,
    }
    assert moment(1_769_853_600_000_001) == "2026-01-31T10:00:00.000001Z"


def test_a_payload_is_read_as_far_as_it_can_be() -> None:
    json_payload = Payload(zlib.compress(b'{"a": [1.50, {"b": "x"}], "t": true, "n": null}'))
    assert json_payload.text_at(("a", 0)) == "1.50"
    assert json_payload.text_at(("a", 1)) == '{"b":"x"}'
    assert json_payload.text_at(("t",)) == "true"
    assert json_payload.json_at(("a", 1, "b")) == '"x"'
    for nowhere in (("n",), ("a", 7), ("a", "0"), ("x", "y")):
        assert json_payload.text_at(nowhere) is None
    raw = Payload(zlib.compress(b"\xff"))
    assert (raw.text, raw.base64, raw.text_at(("a",))) == (None, "/w==", None)


def test_paths_are_told_to_the_database_as_its_own() -> None:
    assert json_path(("a", 0, 'x"y')) == 'strict $."a"[0]."x\\"y"'
    chosen = selection(parameters(columns=[{"name": "a%b", "source": "$['100%']"}]))
    assert chosen.values["path0"] == 'strict $."100%"'
    assert ' AS "a%%b" FROM' in chosen.statement(), "a sign of parameters, once more"


def test_a_range_of_keys_and_one_of_blocks_have_their_ends() -> None:
    keys = within("A", None, "t.key", "text")
    assert keys == ("true AND t.key >= %(low)s::text", {"low": "A"})
    _, values = within(0, 8, "t.key", "text")
    assert values == {"low": "(0,0)", "high": "(8,0)"}


@pytest.mark.parametrize(
    "fields",
    [
        {"columns": [{"name": "a", "source": "nothing"}]},
        {"columns": [{"name": " ", "source": "key"}]},
        {"delimiter": "ab"},
        {"format": "xml"},
        {"where": ["$.*", "1"]},
        {"colour": "red"},
    ],
)
def test_what_cannot_be_exported_is_told(fields: dict[str, Any]) -> None:
    with pytest.raises(JobError) as told:
        selection(parameters(**fields))
    assert told.value.code == "BAD_PARAMETERS"
