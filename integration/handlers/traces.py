"""The part of an exception that may be shown: its sentence and frames, no contents of messages."""

import linecache
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import jsonschema
import psycopg
from django.core.exceptions import ValidationError

from integration.documents.refusals import SENTENCE_LIMIT, plain_text, schema_sentence
from integration.errors import IntegrationError

DETAIL_LIMIT_BYTES: Final = 8_192
_FRAMES_PER_LINK: Final = 16
HIDDEN: Final = "…"
# In the sentences of Python and PostgreSQL: what is quoted, unless it is their own word (a field,
# an argument, a type, an operator, a format, a codec), and what was got instead.
# A quote that nothing closes hides the rest: each character is read once, whatever the text.
_QUOTED: Final = re.compile(
    r"""(Field\ '\w*+'
    |(?:keyword\ argument|positional\ argument:|<class)\ '[\w.]++'
    |['"](?:NoneType|int|float|str|bytes|bool|list|dict|tuple|set|Decimal|datetime[.\w]*+)['"]
    |'(?:[<>]=?|[-+*/%])'
    |match\ format\ '[^']*+'
    |encoding\ "\w++"
    |'[\w-]++'(?=\ codec))
    |(?!(?<=\w)'[st]\b)'(?:[^'\\]++|\\.?)*(?:'|\Z)  # but no apostrophe within a word
    |"(?:[^"\\]++|\\.?)*(?:"|\Z)
    |(?<=but\ got\ )[^'"].*
    |(?<=remains:\ ).*""",
    re.DOTALL | re.VERBOSE,
)
# Parameters of Django's messages that tell of the rule that was broken.
_HARMLESS: Final = frozenset(
    {"limit_value", "max", "offset", "allowed_extensions", "model", "field"}
    | {"field_label", "field_labels", "model_name", "lookup_type", "date_field"}
)
# Of a text that is too long or too short these tell its length, by the name of the value.
_LENGTHS: Final = frozenset({"max_length", "min_length"})
# Stands for a value that is not shown: every format takes a number, `%s` and `%d`.
_NUMBER: Final = 7_203_685_477
_FILLED_IN: Final = re.compile(rf"{_NUMBER}(?:\.0+)?")
# In front of a sentence: what its value was called there.
_VALUE: Final = re.compile(rf"\A(?:Value {HIDDEN}|[“\"']{HIDDEN}[”\"'](?: value)?)(?= )")
# The class of PostgreSQL's errors that quote the value itself, not only names.
_DATA: Final = "22"
# A key alone is no sentence; a trace has the name in front of it already.
_OF_KEY_ERRORS: Final = "KeyError: "
_CUT: Final = "\n  […]\n"
_ENGINE: Final = str(Path(__file__).resolve().parent.parent / "delivery")


def sentence(exception: BaseException) -> str:
    """Return what the exception says, for people who may not see payloads.

    What others quote of the message is left out: PostgreSQL's DETAIL, jsonschema's instance,
    the values in Django's and Python's own sentences. A handler's own sentence, raised as one of
    our errors, is shown as it is.
    """
    try:
        text = _said(exception)
    except Exception as e:  # noqa: BLE001 - a strange __str__ must not hide the failure
        text = f"(its text cannot be read: {type(e).__name__})"
    return (text.strip() or type(exception).__name__)[:SENTENCE_LIMIT]


def _said(exception: BaseException) -> str:
    match exception:
        case IntegrationError():
            return str(exception)
        case psycopg.Error():
            return _said_by_postgres(exception)
        case jsonschema.ValidationError():
            return schema_sentence(exception)
        case ValidationError():
            return _said_by_django(exception)
        case _:
            return _said_by_python(exception)


def _said_by_python(exception: BaseException) -> str:
    if isinstance(exception, KeyError):
        return f"{_OF_KEY_ERRORS}{exception}"
    if isinstance(exception, ValueError | TypeError | ArithmeticError | IndexError):
        return _without_quotes(str(exception))
    return str(exception)


def _without_quotes(text: str) -> str:
    return _QUOTED.sub(lambda part: part[1] or HIDDEN, text)


def _said_by_postgres(error: psycopg.Error) -> str:
    diag = error.diag
    if not diag.message_primary:
        return str(error)
    where = diag.table_name and diag.column_name and f"{diag.table_name}.{diag.column_name}"
    said = diag.message_primary
    if (diag.sqlstate or "").startswith(_DATA):
        said = _without_quotes(said)
    return f"{said} {where}" if where and where not in said else said


def _said_by_django(error: ValidationError) -> str:
    if hasattr(error, "error_dict"):
        errors = error.error_dict.items()
        return " ".join(f"{field}: {' '.join(map(_without_values, of))}" for field, of in errors)
    return " ".join(map(_without_values, error.error_list))


def _without_values(error: ValidationError) -> str:
    """One message of Django's with its limits and names, but without what was checked."""
    if not error.params:
        return str(error.message)
    known = _HARMLESS | {"show_value"} if error.code in _LENGTHS else _HARMLESS
    shown = {name: v if name in known else _NUMBER for name, v in error.params.items()}
    try:
        # The message itself, not its text: one with a plural has none before it is filled in.
        text = str(error.message % shown)
    except (TypeError, ValueError):
        return str(error.message)
    return _VALUE.sub("This value", _FILLED_IN.sub(HIDDEN, text))


def what_and_where(failure: BaseException) -> tuple[str, str]:
    """The exception's name and the lines it came through, without any value."""
    frames = traceback.extract_tb(failure.__traceback__)[-3:]
    return type(failure).__name__, ", ".join(f"{f.filename}:{f.lineno}" for f in frames)


def trace(chain: Sequence[BaseException]) -> str:
    """The frames of an exception and its causes, the first cause first, at most 8 kB.

    Frames of the engine are left out. Only our own sentences stand beside the exceptions'
    names, because the usual ones quote rows and documents.
    """
    links = [_link(exception) for exception in reversed(chain)]
    text = plain_text("\nwhich led to\n".join(links))
    if len(text.encode()) <= DETAIL_LIMIT_BYTES:
        return text
    half = (DETAIL_LIMIT_BYTES - len(_CUT.encode())) // 2
    start = text.encode()[:half].decode(errors="ignore")
    return start + _CUT + text.encode()[-half:].decode(errors="ignore")


def _link(exception: BaseException) -> str:
    kind = type(exception)
    room = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{room}{kind.__qualname__}"
    said = sentence(exception)
    if isinstance(exception, KeyError):
        said = said.removeprefix(_OF_KEY_ERRORS)
    told = name if said == kind.__name__ else f"{name}: {said}"
    return f"{_frames(exception.__traceback__)}{told}"


def _frames(start: TracebackType | None) -> str:
    """The innermost frames as Python prints them.

    Written here because the traceback module looks at every source file's age again: with some
    failures in a hundred messages that was the dearest part of a failure (260 µs, now 80).
    """
    lines: list[str] = []
    while start is not None:
        code = start.tb_frame.f_code
        if not code.co_filename.startswith(_ENGINE):
            source = linecache.getline(code.co_filename, start.tb_lineno).strip()
            place = f'  File "{code.co_filename}", line {start.tb_lineno}, in {code.co_name}\n'
            lines.append(f"{place}    {source}\n" if source else place)
        start = start.tb_next
    return "".join(lines[-_FRAMES_PER_LINK:])
