"""Hides in the rows of an export what masking rules hide on pages."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from integration.envelope import Flaw, body_of
from integration.masking.documents import is_xml
from integration.masking.mask import HIDDEN, NOTHING, Mask
from spark_jobs.exports.parameters import ExportParameters, Format, Wanted
from spark_jobs.exports.selecting import Selection
from spark_jobs.tables.columns import ColumnKind
from spark_jobs.tables.masking import mask_by, masked_record

Row = Sequence[Any]
_Hide = Callable[[Any], Any]
_HIDDEN_JSON: Final = json.dumps(HIDDEN, ensure_ascii=False)


def mask_in(parameters: ExportParameters) -> Mask:
    """The mask that an export was asked for with."""
    return mask_by(parameters.masking)


def hiding_of_records(parameters: ExportParameters) -> Callable[[bytes], bytes] | None:
    """What makes of a record one without masked values; None where there are no rules."""
    mask = mask_in(parameters)
    return partial(masked_record, mask) if mask.hides_payload else None


def hiding_of_documents(parameters: ExportParameters, selection: Selection) -> Callable[[Row], Row]:
    """What makes of a row of documents one without masked values."""
    mask = mask_in(parameters)
    if mask.is_empty and not parameters.hidden:
        return lambda row: row
    wanted = selection.wanted or (Wanted(name="document", source="document"),)
    hides = [
        _of_column(parameters, mask, wish, column.kind)
        for wish, column in zip(wanted, selection.columns, strict=True)
    ]
    return lambda row: [
        value if value is None or hide is None else hide(value)
        for value, hide in zip(row, hides, strict=True)
    ]


def _of_column(
    parameters: ExportParameters, mask: Mask, wish: Wanted, kind: ColumnKind
) -> _Hide | None:
    is_json = kind is ColumnKind.JSON
    if wish.source in parameters.hidden:
        return lambda _: HIDDEN
    if wish.source in ("document", "xml"):
        return partial(_text, mask, is_json=is_json and parameters.format is not Format.PARQUET)
    if not wish.is_path:
        return None
    inner = mask.below(wish.source)
    if inner is None:
        return lambda _: _HIDDEN_JSON if is_json else HIDDEN
    return partial(_value, inner) if inner is not NOTHING else None


def _text(mask: Mask, text: str, *, is_json: bool) -> str:
    """A stored document: JSON, XML, or XML as a text of JSON."""
    body = body_of(text)
    if isinstance(body, str):
        inner = _text(mask, body, is_json=False)
        return json.dumps(inner, ensure_ascii=False)
    hidden = None if isinstance(body, Flaw) else mask.document(text, is_xml=is_xml(body))
    if hidden is None:
        return _HIDDEN_JSON if is_json else HIDDEN
    return hidden.text


def _value(mask: Mask, text: str) -> str:
    """The value at a path, as JSON or as its own text: only objects and arrays hold others."""
    if text[:1] not in {"{", "["} or isinstance(body_of(text), Flaw):
        return text
    hidden = mask.document(text, is_xml=False)
    return HIDDEN if hidden is None else hidden.text
