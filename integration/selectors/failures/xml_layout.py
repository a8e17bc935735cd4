"""XML of one line with a line for each element, for people who edit it; nothing else changes."""

import re
from collections.abc import Iterator
from typing import Final

from lxml import etree

# Quoted values may hold ">"; what is between two tags is text.
_PIECES: Final = re.compile(r"""<(?:"[^"]*"|'[^']*'|[^'"<>])*>|[^<]+""")
# Where blanks may be content, or a piece of markup is more than a tag, the text stays as it is.
_LEFT_ALONE: Final = ("<!", "xml:space")
_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)


def laid_out(text: str) -> str:
    r"""The text with line ends and indents between its tags; unchanged where that could matter.

    >>> laid_out("<a><b>1</b><c/></a>")
    '<a>\n  <b>1</b>\n  <c/>\n</a>'
    >>> laid_out("<p>one <b>word</b></p>")
    '<p>one <b>word</b></p>'
    """
    return "".join(_lines(text.strip())).lstrip("\n") if _is_plain(text) else text


def _is_plain(text: str) -> bool:
    """Return whether it is XML of elements and values only, without text between elements."""
    if not text.lstrip().startswith("<") or any(mark in text for mark in _LEFT_ALONE):
        return False
    try:
        root = etree.fromstring(text.strip().encode(), _PARSER)
    except (etree.XMLSyntaxError, ValueError):
        return False
    return all(_holds_elements_or_text(element) for element in root.iter())


def _holds_elements_or_text(element: etree._Element) -> bool:
    texts = [element.text, *(child.tail for child in element)]
    return not len(element) or not any(text and text.strip() for text in texts)


def _lines(text: str) -> Iterator[str]:
    depth, before = 0, ""
    for piece in _PIECES.findall(text):
        is_end = piece.startswith("</")
        depth -= is_end
        if not piece.startswith("<"):
            if not piece.strip():
                continue
            yield piece
        else:
            ends_a_value = is_end and not (before.startswith("</") or before.endswith("/>"))
            yield piece if ends_a_value else "\n" + "  " * depth + piece
        if piece.startswith("<") and not (is_end or piece.endswith("/>") or piece[1] == "?"):
            depth += 1
        before = piece
