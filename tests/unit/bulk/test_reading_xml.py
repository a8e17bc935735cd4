"""XML as a stream of records: each once, with its line; what breaks the file costs the rest."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from spark_jobs.errors import JobError
from spark_jobs.imports import planning, sources
from spark_jobs.imports.mapping import Document, Mapper, Rejected
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import LARGEST_ROW_CHARACTERS, Row
from tests.unit.bulk.job_requests import import_parameters

COLUMNS = [
    {"source": "ASSETNUM", "target": "assetnum"},
    {"source": "LOCATION/SITEID", "target": "siteid"},
    {"source": "@id", "target": "id"},
]
TEXTS = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\n"), max_size=8
)


def xml_parameters(**fields: Any) -> ImportParameters:
    return import_parameters(**{"format": "xml", "record": "ASSET", "columns": COLUMNS, **fields})


def read(folder: Path, data: bytes, **fields: Any) -> list[Row]:
    (folder / "a.xml").write_bytes(data)
    parameters = xml_parameters(source=str(folder / "a.xml"), **fields)
    plan = planning.plan(parameters)
    names = sources.names_of([file for file, *_ in plan.files], parameters)
    return [
        row for part in plan.ranges for row in sources.rows_of(part, parameters, names[part.file])
    ]


def codes(rows: list[Row]) -> list[str | None]:
    return [row.flaw and str(row.flaw.code) for row in rows]


def test_records_are_found_by_their_local_name_wherever_they_stand(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        b"""<?xml version="1.0" encoding="ISO-8859-1"?>
<x:ASSETS xmlns:x="urn:y"><!-- <ASSET/> -->
 <x:ASSET id="1"><x:ASSETNUM> M\xfcller </x:ASSETNUM><x:LOCATION>
   <x:SITEID>B</x:SITEID></x:LOCATION></x:ASSET>
 <more><ASSET><ASSETNUM><![CDATA[<2>]]></ASSETNUM><ASSET>inner</ASSET></ASSET></more>
</x:ASSETS>""",
    )
    assert [(row.line, row.values) for row in found] == [
        (3, ["Müller", "B", "1"]),
        (5, ["<2>", "", ""]),
    ]
    assert found[0].text.startswith('<x:ASSET xmlns:x="urn:y" id="1"><x:ASSETNUM> Müller')


@given(values=st.lists(st.tuples(TEXTS, TEXTS), max_size=60))
@settings(suppress_health_check=list(HealthCheck))
def test_every_record_is_read_once(tmp_path: Path, values: list[tuple[str, str]]) -> None:
    root = etree.Element("ASSETS")
    for number, site in values:
        record = etree.SubElement(root, "ASSET", id=number)
        etree.SubElement(record, "ASSETNUM").text = number
        etree.SubElement(etree.SubElement(record, "LOCATION"), "SITEID").text = site
        etree.SubElement(root, "OTHER").text = "x" * 3_000
    found = read(tmp_path, etree.tostring(root, encoding="utf-8"))
    wanted = [[number.strip(), site.strip()] for number, site in values]
    assert [list(row.values)[:2] for row in found] == wanted


def test_what_came_before_a_break_is_read_and_the_rest_is_one_row(tmp_path: Path) -> None:
    good = "".join(f'<ASSET id="{n}"><ASSETNUM>{n}</ASSETNUM></ASSET>\n' for n in range(3_000))
    rest = "<ASSET><ASSETNUM>broken</ASSET>\n<ASSET><ASSETNUM>behind</ASSETNUM></ASSET>\n</ASSETS>"
    found = read(tmp_path, f"<ASSETS>\n{good}{rest}".encode())
    assert [row.values[0] for row in found[:-1]] == [str(n) for n in range(3_000)]
    last = found[-1]
    assert (last.line, last.text) == (3_002, rest)
    assert last.flaw is not None
    assert last.flaw.code == "BAD_XML"
    assert "line 3,002, column 32 (TAG_NAME_MISMATCH)" in last.flaw.text
    assert last.raw == rest.encode()


@pytest.mark.parametrize(
    ("data", "code", "rest"),
    [
        (
            b"<A>\n<ASSET><ASSETNUM>1</ASSETNUM></ASSET>\n<ASSET><ASS",
            "TRUNCATED_XML",
            "<ASSET><ASS",
        ),
        (b"<A>\n<ASSET/><ASSET>&who;</ASSET><ASSET/></A>", "BAD_XML", "<ASSET>&who;"),
        (b"<A>\n<ASSET/>\xff<ASSET/></A>", "BAD_XML", "\udcff<ASSET/>"),
        (b"<A>\n<ASSET/></A>\n<A><ASSET/></A>", "BAD_XML", "<A><ASSET/>"),
    ],
)
def test_a_break_is_told_with_the_text_it_begins_with(
    tmp_path: Path, data: bytes, code: str, rest: str
) -> None:
    found = read(tmp_path, data)
    assert codes(found) == [None, code]
    assert found[-1].text.startswith(rest)


def test_a_document_type_and_its_entities_are_not_read(tmp_path: Path) -> None:
    laughs = b'<!DOCTYPE A [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<A><ASSET>&b;</ASSET></A>'
    found = read(tmp_path, laughs)
    assert codes(found) == ["XML_DOCTYPE"]


def test_a_file_without_records_or_without_anything_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path, b"<ASSETS/>") == []
    assert read(tmp_path, b"") == []
    assert codes(read(tmp_path, b"no XML")) == ["BAD_XML"]


def test_a_value_that_is_there_twice_or_is_no_text_is_not_guessed(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        b"<A><ASSET><ASSETNUM>1</ASSETNUM><ASSETNUM>2</ASSETNUM></ASSET>"
        b"<ASSET><ASSETNUM><b>1</b></ASSETNUM></ASSET></A>",
    )
    assert codes(found) == ["VALUE_TWICE", "WRONG_KIND"]
    became = Mapper(xml_parameters(), ["ASSETNUM", "LOCATION/SITEID", "@id"]).map(found[0])
    assert isinstance(became, Rejected)
    assert became.payload == b'{"assetnum":"1"}', "the document as far as it goes"
    assert became.shown.startswith("<ASSET>")


def test_one_enormous_text_costs_the_rest_of_its_file(tmp_path: Path) -> None:
    data = b"<A><ASSET><ASSETNUM>1</ASSETNUM></ASSET>\n<ASSET><ASSETNUM>" + b"x" * 50_000_000
    found = read(tmp_path, data + b"</ASSETNUM></ASSET></A>")
    assert codes(found) == [None, "BAD_XML"]
    assert (found[1].line, len(found[1].text)) == (2, LARGEST_ROW_CHARACTERS)
    assert found[1].text.startswith("<ASSET><ASSETNUM>xxx")


def test_records_are_documents_where_the_structure_has_xpaths(tmp_path: Path) -> None:
    structure = {"name": "A", "key_paths": ["/ASSET/ASSETNUM"]}
    parameters = xml_parameters(structure=structure, columns=[])
    rows = read(
        tmp_path,
        b"<A><ASSET><ASSETNUM>1</ASSETNUM></ASSET><ASSET/></A>",
        structure=structure,
        columns=[],
    )
    good, bad = map(Mapper(parameters, []).map, rows)
    assert good == Document("<ASSET><ASSETNUM>1</ASSETNUM></ASSET>", "1", None)
    assert isinstance(bad, Rejected)
    assert (bad.flaw.code, bad.payload) == ("NO_KEY", b"<ASSET/>")


DELETION = b"<SyncAS><ASSet><AS action='Delete'><NUM>1</NUM></AS></ASSet></SyncAS>"


@pytest.mark.parametrize(
    ("more", "ends"),
    [
        ({"tombstone": "delete"}, True),
        ({"tombstone": "delete", "json_schema": {}}, "SCHEMA_VIOLATION"),
        ({}, "DELETE_ACTION"),
    ],
)
def test_a_message_that_deletes_is_read_as_such(
    tmp_path: Path, more: dict[str, Any], ends: bool | str
) -> None:
    structure = {"name": "A", "key_paths": ["//NUM"], **more}
    fields: dict[str, Any] = {"structure": structure, "columns": [], "record": "SyncAS"}
    (row,) = read(tmp_path, b"<A>%s</A>" % DELETION, **fields)
    found = Mapper(xml_parameters(**fields), []).map(row)
    said = found.deletes if isinstance(found, Document) else found.flaw.code
    assert said == ends
    fields["target"] = {"queue": 1, "topic": "t"}
    found = Mapper(xml_parameters(**fields), []).map(row)
    assert isinstance(found, Rejected) or not found.deletes, "it goes on as the message it is"


@pytest.mark.parametrize(
    "wrong",
    [
        {"record": ""},
        {"record": "a:ASSET"},
        {"columns": []},
        {"columns": [{"source": "a//b", "target": "x"}]},
        {"columns": [{"source": "@a/b", "target": "x"}]},
        {"structure": {"name": "A", "key_paths": ["/ASSET/ASSETNUM"]}},
    ],
)
def test_what_makes_no_sense_of_xml_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(JobError) as told:
        xml_parameters(**wrong)
    assert told.value.code == "BAD_PARAMETERS"
