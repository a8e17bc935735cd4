"""Every code that people may meet is unique and explained."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from integration import jms_headers
from integration.delivery import rescuing
from integration.delivery.watch import KIND_OF_CODE
from integration.endpoints.codes import EndpointCode
from integration.envelope import FlawCode
from integration.errors import IntegrationError
from integration.store import stable_ends
from integration.values import TroubleKind
from tests.architecture.sources import ROOT, modules, parsed, text

pytestmark = pytest.mark.fast

ROOMS = (
    "integration",
    "crontasks",
    "console",
    "config",
    "sluice",
    "sample",
    "payments",
    "spark_jobs",
)
CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
# Called with a code: its place among the arguments, or the keyword.
WRITERS: dict[str, int | None] = {
    "Failure": 1,
    "Rule": 2,
    "ThresholdReached": 0,
    "StateChange": None,
    "_block": 1,
    "permanent": 1,
    "transient": 1,
    "outage": 1,
    "Unknown": None,
    "_untaken": 2,
    "Flaw": 0,
    "JobError": 0,
    "gone": 0,
    "BulkError": 0,
    "_named": 2,
    "unknown": 0,
    "_unknown": 2,
    "_give_up": 0,
    "Strange": 0,
}
WHY_A_RUN_FAILS = "## Why a run fails"
LISTED = re.compile(r"^\| `([A-Z0-9_]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)


def declared() -> Counter[str]:
    """The codes that classes have: errors, also the one that comes before anything is imported."""
    found: Counter[str] = Counter()
    for source in _with(r"^\s+code\b", *ROOMS):
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ClassDef):
                found.update(_code_of(node))
    return found


def _with(pattern: str, *rooms: str) -> Iterator[str]:
    """The modules in which it is found: to walk through the trees of all takes seconds."""
    known = re.compile(pattern, re.MULTILINE)
    return (source for _, source in modules(*rooms) if known.search(source))


def _code_of(node: ast.ClassDef) -> Iterator[str]:
    for line in node.body:
        named = line.targets[0] if isinstance(line, ast.Assign) else None
        named = line.target if isinstance(line, ast.AnnAssign) else named
        if isinstance(named, ast.Name) and named.id == "code":
            value = getattr(line, "value", None)
            if isinstance(value, ast.Constant) and value.value:
                yield str(value.value)


def written() -> set[str]:
    """Codes that the engine puts into failures and states, found where they are written."""
    found = {flaw.value for flaw in FlawCode} | {code.value for code in EndpointCode}
    found |= stable_ends.CODES | rescuing.CODES | {flaw.value for flaw in jms_headers.FlawCode}
    outages = (TroubleKind.UNAVAILABLE, TroubleKind.REFUSED, *KIND_OF_CODE.values())
    found |= {f"KAFKA_{kind.value}" for kind in outages}
    own = (room for room in ROOMS if room not in {"sample", "payments"})
    for source in _with(rf"\b({'|'.join(WRITERS)})\(", *own):
        found |= set(_codes(parsed(source)))
    return found


def _codes(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in WRITERS:
            for value in _given(node, WRITERS[_name(node.func)]):
                texts = {n.value for n in ast.walk(value) if isinstance(n, ast.Constant)}
                yield from (t for t in texts if isinstance(t, str) and CODE.fullmatch(t))


def _name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _given(call: ast.Call, place: int | None) -> list[ast.expr]:
    """The arguments that may hold the code: by keyword, or at its place."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    return named if place is None else [*named, *call.args[place : place + 1]]


def explained() -> dict[str, tuple[str, str]]:
    pages = text("docs/error-codes.md") + text("docs/envelope.md") + "".join(bulk_pages())
    return {code: (why, step) for code, why, step in LISTED.findall(pages)}


def bulk_pages() -> list[str]:
    return [path.read_text() for path in sorted((ROOT / "docs").glob("bulk*.md"))]


def of_runs() -> set[str]:
    """Codes of bulk jobs as a whole: a run has them, no message."""
    tables = [page.partition(WHY_A_RUN_FAILS)[2].partition("\n## ")[0] for page in bulk_pages()]
    return {code for code, _, _ in LISTED.findall("\n".join(tables))}


def test_each_error_has_a_code_of_its_own():
    own = declared()
    assert own["DATABASE_LOST"] == 1
    assert not [code for code, count in own.items() if count > 1]
    assert all(CODE.fullmatch(code) for code in own)


def everything() -> set[str]:
    return written() | declared().keys() - {IntegrationError.code}


def test_every_code_is_explained():
    codes = everything()
    assert {"HEAD_HELD", "GAP", "TOPIC_RECREATED", "PROCESS_CRASH", "DEADLOCK", "ID_REUSED"} < codes
    assert not sorted(codes - explained().keys())


def test_nothing_is_explained_that_cannot_be_met():
    assert not sorted(explained().keys() - everything())


def test_every_explanation_has_a_cause_and_a_step():
    for code, (cause, step) in explained().items():
        assert cause.endswith("."), code
        assert step.endswith("."), code
