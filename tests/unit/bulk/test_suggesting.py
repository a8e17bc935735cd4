"""Where columns belong, by their names alone; and the map as lines of a job request."""

from console.bulk.columns import Place, mapped, may_be_mapped, places, read, suggest, written
from spark_jobs.imports.parameters import ColumnKind

SCHEMA = {
    "properties": {
        "assetnum": {"type": "string"},
        "installed": {"type": ["string", "null"], "format": "date"},
        "spare": {"type": "boolean"},
        "facts": {
            "properties": {"weight": {"type": "integer"}, "colour": {"type": "string"}},
            "required": ["weight"],
        },
        "tags": {"type": "array"},
        "odd.name": {"type": "string"},
        "mixed": {"type": ["string", "integer"]},
    },
    "required": ["facts", "spare"],
}


def test_a_structure_names_its_places() -> None:
    found = {one.name: one for one in places(["$.assetnum", "$.site.id"], "$.changed", SCHEMA)}
    assert found == {
        "assetnum": Place("assetnum", ColumnKind.TEXT, required=True),
        "installed": Place("installed", ColumnKind.DATE),
        "spare": Place("spare", ColumnKind.BOOLEAN, required=True),
        "facts.weight": Place("facts.weight", ColumnKind.INTEGER, required=True),
        "facts.colour": Place("facts.colour"),
        "tags": Place("tags", ColumnKind.JSON),
        "mixed": Place("mixed"),
        "site.id": Place("site.id", ColumnKind.TEXT, required=True),
        "changed": Place("changed"),
    }


def test_paths_that_are_no_places_are_passed_over() -> None:
    assert places(["$..id", "$.a[0]", "/Asset/NUM", "$['a b']"], "", None) == []
    assert places([], "", {"properties": "odd"}) == []


def test_columns_find_their_place_by_name_whatever_its_capitals_and_signs() -> None:
    known = places(["$.assetnum", "$.siteid"], "", SCHEMA)
    found = suggest(["ASSET_NUM", "Site-Id", "WEIGHT", "Installed", "Long Name"], known)
    assert [(one.target, one.kind, one.required) for one in found] == [
        ("assetnum", "text", True),
        ("siteid", "text", True),
        ("facts.weight", "integer", True),
        ("installed", "date", False),
        ("long_name", "text", False),
    ]


def test_no_place_is_suggested_twice() -> None:
    found = suggest(["A", "a", "A."], [Place("a", required=True)])
    assert [one.target for one in found] == ["a", "", ""]


def test_capitals_stay_where_the_structure_has_some() -> None:
    assert suggest(["WEIGHT"], [Place("AssetNum")])[0].target == "WEIGHT"
    assert suggest(["WEIGHT"], [])[0].target == "WEIGHT"


def test_a_name_of_signs_alone_is_left_out() -> None:
    assert [one.target for one in suggest(["", "  ", "€€"], [Place("x")])] == ["", "", ""]


def test_a_map_comes_back_from_its_lines() -> None:
    columns = [
        mapped("A", "a", "text", required=True),
        mapped("B", "b.c", "integer"),
        mapped("C", "", "text"),
    ]
    text = written(columns)
    assert text == "A=a!\nB=b.c:integer"
    assert list(read(text + "\nodd\n").values()) == columns[:2]


def test_some_names_no_line_can_hold() -> None:
    assert may_be_mapped("Long Name")
    for name in ("", "a=b", " a", "a\nb"):
        assert not may_be_mapped(name)
