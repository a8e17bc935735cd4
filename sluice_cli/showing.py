"""Answers as people read them: a table for a list, all that has a value for one thing."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]
# Of a list these say most, in this order.
SAID_FIRST: Final = ("id", "name", "job", "verb", "title", "state", "status", "version", "code")
NARROWEST: Final = 8
WIDEST: Final = 60
INDENT: Final = "  "


def list_in(answer: Row) -> tuple[str, list[dict[str, Any]]] | None:
    """The list that an answer is about, with its name: it comes first. None for one thing."""
    name, value = next(iter(answer.items()), ("", None))
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return name, value
    return None


def table(rows: Sequence[Row], width: int | None = None) -> str:
    """One line a row, as wide as the terminal; what is left out, `left_out` tells."""
    if not rows:
        return "None."
    widths = _widths(rows, width or _room())
    head = "  ".join(name.upper()[:wide].ljust(wide) for name, wide in widths.items())
    lines = ["  ".join(_cut(row.get(name), wide) for name, wide in widths.items()) for row in rows]
    return "\n".join(line.rstrip() for line in [head, *lines])


def left_out(rows: Sequence[Row], width: int | None = None) -> list[str]:
    """The names of values that a table has no column for: nested ones, and what has no room."""
    shown = _widths(rows, width or _room()) if rows else {}
    return [name for name in (rows[0] if rows else ()) if name not in shown and _has(rows, name)]


def facts(answer: Row, width: int | None = None) -> str:
    """All that has a value, in the answer's order; what is nested is indented below its name."""
    room = width or _room()
    lines: list[str] = []
    plain: dict[str, str] = {}
    for name, value in answer.items():
        if not has_value(value):
            continue
        if _is_short(value):
            plain[name] = _cell(value)
            continue
        below = _nested(value, room - len(INDENT)).split("\n")
        lines += [*_pairs(plain), name, *(f"{INDENT}{line}".rstrip() for line in below)]
        plain = {}
    return "\n".join([*lines, *_pairs(plain)]) or "None."


def problem(said: Row) -> str:
    """Why something was refused, and what to do."""
    first = f"{said.get('code', said.get('status', ''))}: {said.get('detail', '')}"
    mistakes = [f"  {one['place']}: {one['text']}" for one in said.get("mistakes", ())]
    return "\n".join([first, *mistakes, str(said.get("next_step", ""))]).strip()


def has_value(value: object) -> bool:
    """Whether there is something to say, be it 0 or no."""
    if isinstance(value, dict | list):
        return any(map(has_value, value.values() if isinstance(value, dict) else value))
    return value is not None and value != ""


def printable(text: str) -> str:
    """On one line. Senders choose texts: nothing of them may steer the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _room() -> int:
    return shutil.get_terminal_size((120, 40)).columns


def _widths(rows: Sequence[Row], room: int) -> dict[str, int]:
    """The columns that have room, each with its width."""
    widths: dict[str, int] = {}
    for name in _ordered(rows[0]):
        if any(isinstance(row.get(name), dict | list) for row in rows):
            continue
        wide = min(WIDEST, max(len(name), *(len(_cell(row.get(name))) for row in rows)))
        left = room - sum(one + 2 for one in widths.values())
        if left < min(wide, NARROWEST):
            break
        widths[name] = min(wide, left)
    return widths


def _has(rows: Sequence[Row], name: str) -> bool:
    return any(has_value(row.get(name)) for row in rows)


def _is_short(value: object) -> bool:
    """Whether it stands in the line of its name: one value, or some words."""
    if isinstance(value, list):
        return all(isinstance(one, int | float | str) and " " not in str(one) for one in value)
    return not isinstance(value, dict) and "\n" not in str(value).strip("\n")


def _nested(value: object, room: int) -> str:
    match value:
        case dict():
            return facts(value, room)
        case list() if all(isinstance(one, dict) for one in value):
            return _whole(value, room)
        case list():
            return "\n".join(_cell(one) for one in value)
        case _:
            # The lines of a text stay its lines.
            return "\n".join(_cell(line.expandtabs(4)) for line in str(value).split("\n"))


def _whole(rows: Sequence[Row], room: int) -> str:
    """A table where it holds everything, else the rows one below the other."""
    names = [name for name in rows[0] if _has(rows, name)]
    kept = [{name: row.get(name) for name in names} for row in rows]
    widths = _widths(kept, room)
    is_whole = len(widths) == len(names) and all(
        len(_cell(row[name])) <= wide for row in kept for name, wide in widths.items()
    )
    return table(kept, room) if is_whole else "\n\n".join(facts(row, room) for row in rows)


def _pairs(plain: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, plain), default=0)
    return (f"{name.ljust(width)}  {text}" for name, text in plain.items())


def _ordered(row: Row) -> list[str]:
    first = [name for name in SAID_FIRST if name in row]
    return [*first, *(name for name in row if name not in first)]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_cell(one) for one in value)
    if isinstance(value, dict):
        return _cell(json.dumps(value, ensure_ascii=False))
    return printable(str(value))


def _cut(value: object, width: int) -> str:
    text = _cell(value)
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
