"""The spans that a collector got, as a picture: one JSON object a span, as a test leaves them."""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser

WIDTH: Final = 1_100
STYLE: Final = """
body { margin: 0; padding: 20px 24px; font: 14px/1.4 system-ui, sans-serif; color: #1d273b; }
h1 { font-size: 16px; margin: 0 0 2px; } p { margin: 0 0 12px; color: #667382; }
.row { display: grid; grid-template-columns: 400px 1fr 84px; align-items: center; height: 38px;
  border-top: 1px solid #e6e7e9; }
.name b { font-weight: 600; } .name small { display: block; color: #667382; }
.line { position: relative; height: 14px; }
.line i { position: absolute; height: 14px; border-radius: 3px; min-width: 5px; }
.SERVER { background: #4299e1; } .CONSUMER { background: #2fb344; } .CLIENT { background: #ae3ec9; }
.failed { background: #d63939; } .took { text-align: right; color: #667382; }
"""
Span = Mapping[str, Any]


def page(spans: Sequence[Span]) -> str:
    """The spans below each other, each under its parent, on one line of time."""
    begin = min(span["start_ns"] for span in spans)
    whole = max(span["end_ns"] for span in spans) - begin
    rows = "".join(_row(span, depth, begin, whole) for span, depth in _tree(spans))
    head = f"<h1>Trace {spans[0]['trace_id']}</h1><p>{len(spans)} spans, {whole / 1e6:,.0f} ms</p>"
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{head}{rows}"


def _tree(spans: Sequence[Span], parent: str = "", depth: int = 0) -> Iterator[tuple[Span, int]]:
    """Each with how deep it lies; those whose parent is elsewhere are at the top."""
    known = {span["span_id"] for span in spans}
    for span in spans:
        above = span["parent_id"] if span["parent_id"] in known else ""
        if above == parent:
            yield span, depth
            yield from _tree(spans, span["span_id"], depth + 1)


def _row(span: Span, depth: int, begin: int, whole: int) -> str:
    took = span["end_ns"] - span["start_ns"]
    left, width = 100 * (span["start_ns"] - begin) / whole, 100 * took / whole
    kind = "failed" if span["is_error"] else span["kind"]
    name, more = html.escape(span["name"]), html.escape(", ".join(_facts(span)))
    return (
        f'<div class=row><div class=name style="padding-left:{18 * depth}px"><b>{name}</b>'
        f"<small>{more}</small></div><div class=line><i class={kind} "
        f'style="left:{left:.2f}%;width:{width:.2f}%"></i></div>'
        f"<div class=took>{took / 1e6:,.1f} ms</div></div>"
    )


def _facts(span: Span) -> Iterator[str]:
    told = span["attributes"]
    if "sluice.attempt" in told:
        yield f"try {told['sluice.attempt']}"
    if told.get("sluice.released"):
        yield "released by a person"
    if "error.type" in told:
        yield str(told["error.type"])
    if "sluice.ended" in told:
        yield str(told["sluice.ended"])
    if "http.response.status_code" in told:
        yield f"answer {told['http.response.status_code']}"
    if len(span["links"]) > 1:
        yield "linked to try 1"


def take(browser: Browser, spans: Path, picture: Path) -> None:
    """Make the picture of what tests/functional/test_tracing.py has left at TESTS_TRACE."""
    lines = [json.loads(line) for line in spans.read_text().splitlines()]
    shown = browser.new_page(viewport={"width": WIDTH, "height": 200})
    shown.set_content(page(lines))
    shown.screenshot(path=picture, full_page=True)
    shown.close()
