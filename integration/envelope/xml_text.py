"""XML from untrusted bytes: no entities, no document types, no network, bounded depth."""

import re
from functools import cache
from typing import Final

from lxml import etree

from integration.envelope.flaw import UTF16, Flaw, FlawCode, too_deep

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANKS: Final = re.compile(rb"\s*+")
# Things that may stand before a document type, as (their beginning, their end).
_MISC: Final = ((b"<?", b"?>"), (b"<!--", b"-->"))
_DOCTYPE: Final = b"<!DOCTYPE"
_ERRORS: Final = etree.ErrorTypes
# Errors of libxml2 where a document breaks off; they count only at the very end.
_CUT: Final = frozenset(
    {
        _ERRORS.ERR_TAG_NOT_FINISHED,
        _ERRORS.ERR_DOCUMENT_EMPTY,
        _ERRORS.ERR_GT_REQUIRED,
        _ERRORS.ERR_NAME_REQUIRED,
        _ERRORS.ERR_SPACE_REQUIRED,
        _ERRORS.ERR_ENTITYREF_SEMICOL_MISSING,
        _ERRORS.ERR_ATTRIBUTE_NOT_STARTED,
        _ERRORS.ERR_ATTRIBUTE_NOT_FINISHED,
        _ERRORS.ERR_ATTRIBUTE_WITHOUT_VALUE,
        _ERRORS.ERR_STRING_NOT_CLOSED,
        _ERRORS.ERR_CDATA_NOT_FINISHED,
        _ERRORS.ERR_COMMENT_NOT_FINISHED,
        _ERRORS.ERR_PI_NOT_FINISHED,
    }
)
_NAMES: Final = {code: name for name, code in vars(_ERRORS).items() if name.startswith("ERR_")}


def _parser(encoding: str | None) -> etree.XMLParser:
    # Comments are dropped because they would cut an element's text in two: <id>A1<!-- -->7</id>
    # would read as A1 in a handler that takes `.text`.
    return etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        recover=False,
        remove_comments=True,
        remove_pis=True,
    )


_DECLARED: Final = _parser(None)
# For a text that was already decoded, whatever its declaration says.
_UTF8: Final = _parser("utf-8")


def parse_xml(source: bytes, max_depth: int, *, is_utf8: bool = False) -> object:
    """Return the root element, or a Flaw. `is_utf8` overrules the text's own declaration."""
    if b"\0" in source[:2]:
        return UTF16
    if _DOCTYPE in source and _begins_with_doctype(source):
        return _document_type(source)
    try:
        root = etree.fromstring(source, _UTF8 if is_utf8 else _DECLARED)
    except etree.XMLSyntaxError as failure:
        return _explain(failure, source, max_depth)
    if root.getroottree().docinfo.internalDTD is not None:
        return _document_type(source)  # written in an encoding that hid it from the search
    if source.count(b"<") > max_depth and _is_deeper(max_depth)(root):
        return too_deep(max_depth)
    return root


def _begins_with_doctype(source: bytes) -> bool:
    """Return whether only blanks, comments and instructions stand before a document type.

    Goes over each byte once: one pattern for all of it could try every way to cut the blanks.
    """
    at = len(_BYTE_ORDER_MARK) if source.startswith(_BYTE_ORDER_MARK) else 0
    while True:
        if blanks := _BLANKS.match(source, at):
            at = blanks.end()
        ends = [(begin, end) for begin, end in _MISC if source.startswith(begin, at)]
        if not ends:
            return source.startswith(_DOCTYPE, at)
        begin, end = ends[0]
        closed = source.find(end, at + len(begin))
        if closed < 0:
            return False
        at = closed + len(end)


def _document_type(source: bytes) -> Flaw:
    if b"<!ENTITY" in source:
        return Flaw(FlawCode.XML_ENTITIES, "The XML declares entities.")
    return Flaw(FlawCode.XML_DOCTYPE, "The XML declares a document type (DOCTYPE).")


@cache
def _is_deeper(max_depth: int) -> etree.XPath:
    """Return a test for an element below `max_depth`; it visits each element once, in C."""
    return etree.XPath(f"boolean({'/*' * (max_depth + 1)})")


def _explain(failure: etree.XMLSyntaxError, source: bytes, max_depth: int) -> Flaw:
    line, column = failure.position
    code: int = getattr(failure, "code", 0)  # missing from the stubs
    where = f"line {line}, column {column}"
    if code == _ERRORS.ERR_RESOURCE_LIMIT and "depth" in str(failure.msg):
        return too_deep(max_depth)
    if code in {_ERRORS.ERR_UNDECLARED_ENTITY, _ERRORS.WAR_UNDECLARED_ENTITY}:
        return Flaw(
            FlawCode.XML_ENTITIES, f"An entity that XML does not define is used at {where}."
        )
    if code in _CUT and _ends_at(source, line, column):
        return Flaw(FlawCode.TRUNCATED_XML, f"The XML text stops short at {where}.")
    # libxml2's own sentence may quote the document, so only the name of the error is shown.
    name = _NAMES.get(code, "ERR_UNKNOWN").removeprefix("ERR_")
    return Flaw(FlawCode.BAD_XML, f"The XML is not well-formed at {where} ({name}).")


def _ends_at(source: bytes, line: int, column: int) -> bool:
    if line != source.count(b"\n") + 1:
        return False
    return column > len(source[source.rfind(b"\n") + 1 :].decode(errors="replace"))
