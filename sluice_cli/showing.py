"""Answers as people read them: a table for a list, names and values for one thing."""

import json
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

# Long texts and what is nested are for JSON; of a list these say most, in this order.
SAID_FIRST: Final = ("id", "name", "job", "verb", "title", "state", "status", "version", "code")
NARROWEST: Final = 8
WIDEST: Final = 60


def list_in(answer: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]] | None:
    """The list that an answer is about, with its name; None where it is about one thing."""
    for name, value in answer.items():
        if isinstance(value, list) and "id" not in answer and "name" not in answer:
            if all(isinstance(one, dict) for one in value):
                return name, value
            return None
    return None


def table(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """One line a row, as wide as the terminal; nested values are left out."""
    if not rows:
        return "None."
    room = width or shutil.get_terminal_size((120, 40)).columns
    names = [name for name in _ordered(rows[0]) if not isinstance(rows[0][name], dict | list)]
    cells = [{name: _cell(row.get(name)) for name in names} for row in rows]
    widths: dict[str, int] = {}
    for name in names:
        wide = min(WIDEST, max(len(name), *(len(row[name]) for row in cells)))
        left = room - sum(one + 2 for one in widths.values())
        if left < min(wide, NARROWEST):
            break
        widths[name] = min(wide, left)
    head = "  ".join(name.upper()[:wide].ljust(wide) for name, wide in widths.items())
    lines = ["  ".join(_cut(row[name], wide) for name, wide in widths.items()) for row in cells]
    return "\n".join(line.rstrip() for line in [head, *lines])


def facts(answer: Mapping[str, Any]) -> str:
    """A line for each member; nested ones as JSON."""
    width = max((len(name) for name in answer), default=0)
    return "\n".join(f"{name.ljust(width)}  {_cell(answer[name])}".rstrip() for name in answer)


def problem(said: Mapping[str, Any]) -> str:
    """Why something was refused, and what to do."""
    first = f"{said.get('code', said.get('status', ''))}: {said.get('detail', '')}"
    mistakes = [f"  {one['place']}: {one['text']}" for one in said.get("mistakes", ())]
    return "\n".join([first, *mistakes, str(said.get("next_step", ""))]).strip()


def _ordered(row: Mapping[str, Any]) -> list[str]:
    first = [name for name in SAID_FIRST if name in row]
    return [*first, *(name for name in row if name not in first)]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    # Senders choose texts: nothing of them may steer the terminal.
    return "".join(char if char.isprintable() else " " for char in str(value))


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
