"""Accounts for every message of the bridges: received once, as sent, in its group's order."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

# In the line as numbers; each of them is nought, or something was promised that is not kept.
NOUGHT: Final = ("lost", "doubled", "changed", "out_of_order")
_NUMBER: Final = re.compile(r"\bnumber=Integer (\d+)\b")
# Body, properties, correlation id, type, reply to: then the group.
_GROUP: Final = 5


def compare(sent: Iterable[str], received: Sequence[str]) -> dict[str, list[int]]:
    """Compare what the client told of each message as it sent and as it received it: the numbers.

    A message that nobody has sent counts as doubled: it has no other origin.
    """
    wanted = {number_of(line): line for line in sent}
    numbers = [number_of(line) for line in received]
    counts = Counter(numbers)
    return {
        "lost": sorted(wanted.keys() - counts.keys()),
        "doubled": sorted(n for n, count in counts.items() if count > 1 or n not in wanted),
        "changed": sorted(
            {n for n, line in zip(numbers, received, strict=True) if _is_changed(wanted, n, line)}
        ),
        "out_of_order": _out_of_order(received),
    }


def number_of(line: str) -> int:
    """The number that a message was sent under; -1 where it has none any more."""
    found = _NUMBER.search(line)
    return int(found[1]) if found else -1


def _is_changed(wanted: Mapping[int, str], number: int, line: str) -> bool:
    return number in wanted and wanted[number] != line


def _out_of_order(received: Iterable[str]) -> list[int]:
    """Those that came before one with a lower number of their group."""
    groups: dict[str, list[int]] = {}
    for line in received:
        fields = line.split(" | ")
        group = fields[_GROUP] if len(fields) > _GROUP else ""
        groups.setdefault(group, []).append(number_of(line))
    return sorted(
        number
        for numbers in groups.values()
        for number, next_ in pairwise(numbers)
        if next_ < number
    )


def shortcomings(line: Mapping[str, Any], kills: int) -> list[str]:
    """Say what keeps this line from being a good one."""
    wrong = [f"{name} is {line[name]}" for name in NOUGHT if line[name]]
    wrong += [f"{count} {name} left over" for name, count in line["left_over"].items()]
    if line["kills"] < kills:
        wrong.append(f"{line['kills']} kills instead of {kills}")
    return wrong
