"""Feeds XML to a parser in portions: no entities, no document types, nothing from the network."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final, NamedTuple

from lxml import etree

_BLOCK_BYTES: Final = 2**20
# It ends the reading without a word; whatever else is noticed at the file's end is its end.
_SILENT: Final = "UNDECLARED_ENTITY"
_SAFE: Final[Mapping[str, Any]] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


Opening = Callable[[], BinaryIO]
"""Opens the file anew, at its beginning."""


class Break(NamedTuple):
    """The place where the grammar breaks, and why; `is_end`: the file stops short there."""

    line: int
    column: int
    name: str
    is_end: bool


def parser_of(opening: Opening, name: str) -> "etree.XMLPullParser":
    # The first element is asked for by its own name: what was read is taken away from there.
    tags = [*_first_tag(opening), f"{{*}}{name}"]
    return etree.XMLPullParser(("start", "end"), tag=tags, **_SAFE)


def _first_tag(opening: Opening) -> list[str]:
    with opening() as opened:
        try:
            for _, element in etree.iterparse(opened, events=("start",), **_SAFE):
                return [str(element.tag)]
        except etree.XMLSyntaxError:
            pass  # told by whoever reads it
    return []


def fed(parser: "etree.XMLPullParser", chunk: bytes) -> Break | None:
    """Return where the grammar breaks; None where it does not, or the file ends well.

    Some of what ends the reading raises nothing before the file's end, and is in the log then. A
    prefix that nobody declared is there too, and harms nothing.
    """
    try:
        if chunk:
            parser.feed(chunk)
        else:
            parser.close()
    except etree.XMLSyntaxError:
        return _why(parser, is_end=not chunk)
    return None


def _why(parser: "etree.XMLPullParser", *, is_end: bool) -> Break | None:
    log: Any = parser.feed_error_log
    fatal = [entry for entry in log if entry.level == etree.ErrorLevels.FATAL]
    if fatal:
        name = fatal[0].type_name.removeprefix("ERR_")
        is_cut = is_end and name != _SILENT
        return Break(fatal[0].line, fatal[0].column, name, is_end=is_cut)
    return None if log else Break(1, 1, "DOCUMENT_EMPTY", is_end=True)


def events_of(parser: "etree.XMLPullParser") -> Iterator[tuple[str, etree._Element]]:
    for event, element in parser.read_events():
        if isinstance(element, etree._Element):  # noqa: SLF001 - lxml's only name for it
            yield event, element


def offset_of(opening: Opening, line: int, column: int) -> int:
    """The byte at a line and column, both counted from 1."""
    place, left = 0, line - 1
    with opening() as opened:
        while left and (block := opened.read(_BLOCK_BYTES)):
            ends = block.count(b"\n")
            if ends < left:
                place, left = place + len(block), left - ends
                continue
            at = -1
            for _ in range(left):
                at = block.index(b"\n", at + 1)
            place, left = place + at + 1, 0
    return place + max(column - 1, 0)
