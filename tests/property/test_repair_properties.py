"""For any document and change: a repair makes the very bytes that a bulk edit makes."""

import base64
import json
import uuid
import zlib
from dataclasses import asdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crontasks.bulk.job_requests.imports import structure_of
from integration.documents.exact_json import encode
from integration.models import ObjectStructure
from integration.recipe_rules import subject_of
from integration.recipe_use import Changed, Refused, Rules, Same, use
from integration.recipes import Misfit, compile_recipe
from integration.store.operations import Content
from spark_jobs.repairs.judging import Judge, Judged, Row, Verdict
from spark_jobs.repairs.parameters import RepairParameters

pytestmark = pytest.mark.fast

NAMES = st.sampled_from(["assetnum", "siteid", "a", "b/c", "d~e", "é", "0"])
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=9)
# What no message and no recipe may hold is refused before either of them.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
PATHS = st.lists(NAMES | st.just("-"), min_size=1, max_size=3).map(
    lambda names: "".join("/" + n.replace("~", "~0").replace("/", "~1") for n in names)
)
STEPS = st.one_of(
    st.builds(
        lambda op, path, value: {"op": op, "path": path, "value": value},
        st.sampled_from(["add", "replace", "test"]),
        PATHS,
        TREES,
    ),
    st.builds(lambda path: {"op": "remove", "path": path}, PATHS),
    st.builds(
        lambda op, path, source: {"op": op, "path": path, "from": source},
        st.sampled_from(["copy", "move"]),
        PATHS,
        PATHS,
    ),
)
RECIPES = st.lists(STEPS, min_size=1, max_size=3).map(encode)


def enveloped(text: str) -> bytes:
    return json.dumps({"INTERFACE": "MXASSET", "payload": text, "n": 1}).encode()


def packed(text: str) -> bytes:
    payload = base64.b64encode(zlib.compress(text.encode())).decode()
    return json.dumps({"INTERFACE": "MXASSET", "payload": payload, "compressed": "1"}).encode()


RECORDS = st.one_of(
    st.builds(
        lambda wrap, document: wrap(encode(document)),
        st.sampled_from([str.encode, enveloped, packed]),
        TREES,
    ),
    st.binary(max_size=20),
    st.none(),
)
STRUCTURES = st.builds(
    ObjectStructure,
    name=st.just("ASSET"),
    key_paths=st.sampled_from([["$.assetnum"], ["$.assetnum", "$.siteid"]]),
    version_path=st.sampled_from(["", "$.a"]),
    json_schema=st.sampled_from([None, {"properties": {"siteid": {"type": "string"}}}]),
)


@given(RECORDS, RECIPES, STRUCTURES, st.sampled_from(["", "MXASSET", "MXOTHER"]))
@example(
    b'{"assetnum":"A","n":1.10,"big":12345678901234567890,"tiny":1E-30}',
    '[{"op":"add","path":"/siteid","value":2.00}]',
    ObjectStructure(name="ASSET", key_paths=["$.assetnum", "$.siteid"]),
    "",
)
@example(
    b'{"a":1}',
    '[{"op":"add","path":"/siteid","value":"B"}]',
    ObjectStructure(name="ASSET", key_paths=["$.assetnum"]),
    "MXOTHER",
)
def test_a_repair_makes_what_a_bulk_edit_makes(
    record: bytes | None, recipe: str, structure: ObjectStructure, interface: str
) -> None:
    headers = [["sluice-interface", base64.b64encode(b"MXASSET").decode()]]
    content = Content(1, 7, interface, record, json.dumps(headers))
    rules = Rules.of({"MXASSET": structure}, {7: "MXASSET"})
    by_console = use(compile_recipe(recipe), subject_of(content), rules)

    said = {
        "selection": {"queues": [7]},
        "recipe": recipe,
        "structures": {"MXASSET": asdict(structure_of(structure))},
        "defaults": {"7": "MXASSET"},
    }
    judge = Judge(RepairParameters.of(json.loads(json.dumps(said))))
    row = Row(0, uuid.uuid4(), 1, 7, 1, "HOLD", interface, record, headers)
    assert judge.judge(row) == as_judged(by_console)


def as_judged(found: Changed | Same | Misfit) -> Judged:
    match found:
        case Changed():
            return Judged(Verdict.FITS, change=found)
        case Same():
            return Judged(Verdict.SAME)
        case Misfit(why):
            return Judged(Verdict.REFUSED if isinstance(found, Refused) else Verdict.MISFIT, why)
