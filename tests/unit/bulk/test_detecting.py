"""What a file seems to be, for a form that a person corrects."""

from pathlib import Path

import pytest

from console.bulk.sources import LOOKED_AT_BYTES, seeming
from spark_jobs.errors import JobError
from spark_jobs.imports import columns


@pytest.mark.parametrize(
    ("name", "data", "seems"),
    [
        ("a.csv", b"a,b\n1,2\n", ("csv", "utf-8", ",")),
        ("a.TXT", b"a;b;c\n1,5;2;3\n", ("csv", "utf-8", ";")),
        ("a.tsv", b"a\tb\n", ("csv", "utf-8", "\t")),
        ("a.csv", b"one column\n", ("csv", "utf-8", ",")),
        ("a.csv", "a|b\nMüller|1\n".encode("latin-1"), ("csv", "latin-1", "|")),
        ("a.jsonl", b'{"a": 1}\n', ("jsonl", "utf-8", ",")),
        ("a", b"", ("csv", "utf-8", ",")),
    ],
)
def test_a_file_is_looked_at(
    tmp_path: Path, name: str, data: bytes, seems: tuple[str, ...]
) -> None:
    (tmp_path / name).write_bytes(data)
    assert tuple(seeming(str(tmp_path / name)).values()) == seems


def test_a_sign_that_the_look_cuts_in_two_is_no_other_encoding(tmp_path: Path) -> None:
    line = "Müller,1\n".encode()
    for shift in range(3):
        data = b"x" * shift + b",b\n" + line * (LOOKED_AT_BYTES // len(line) + 1)
        (tmp_path / "a.csv").write_bytes(data)
        assert seeming(f"{tmp_path}/a.csv")["encoding"] == "utf-8"


def test_a_folder_seems_to_be_what_is_usual(tmp_path: Path) -> None:
    usual = {"encoding": "utf-8", "delimiter": ","}
    assert seeming(str(tmp_path)) == {"format": "csv", **usual}
    assert seeming(f"{tmp_path}/*.jsonl") == {"format": "jsonl", **usual}


def test_columns_are_found_before_anybody_has_mapped_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("A;B\n1;x\n2\n3;y\n4;z\n5;w\n")
    found = columns.read(str(tmp_path), encoding="utf-8", delimiter=";")
    assert found == [("A", ("1", "3")), ("B", ("x", "y"))], "of the first rows that are whole"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"encoding": "klingon", "delimiter": ","}, "BAD_PARAMETERS"),
        ({"encoding": "utf-8", "delimiter": ""}, "BAD_PARAMETERS"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, said: dict[str, str], code: str) -> None:
    (tmp_path / "a.csv").write_text("A\n")
    with pytest.raises(JobError) as told:
        columns.read(str(tmp_path), **said)
    assert told.value.code == code
