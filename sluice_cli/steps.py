"""What a configuration file would change, or has changed: each field before and after."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sluice_cli.showing import printable

SIGNS: Final = {"create": "+", "change": "~", "remove": "-"}


def told(steps: Sequence[Mapping[str, Any]], word: str) -> str:
    """A line for each step and below it its fields; `word` is what all of it is, such as “done”."""
    if not steps:
        return "No changes."
    lines = [line for step in steps for line in _step(step)]
    counts = {action: sum(step["action"] == action for step in steps) for action in SIGNS}
    counted = ", ".join(f"{count:,} {action}" for action, count in counts.items())
    return "\n".join([*lines, f"{counted}: {word}."])


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    yield printable(f"{SIGNS[step['action']]} {step['word']} {step['name']}")
    defaults = 0
    for one in step["differences"]:
        if one.get("is_default"):
            defaults += 1
        elif step["action"] == "create":
            yield printable(f"    {one['field']}: {_value(one['after'])}")
        else:
            for field, before, after in _parts(one["field"], one["before"], one["after"]):
                yield printable(f"    {field}: {_value(before)} -> {_value(after)}")
    if defaults:
        yield f"    and {defaults:,} {'default' if defaults == 1 else 'defaults'} (--json has them)"


def _parts(field: str, before: object, after: object) -> Iterator[tuple[str, object, object]]:
    """What differs; of a mapping only the members that do."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield field, before, after
        return
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name) or (name in before) != (name in after):
            yield from _parts(f"{field}.{name}", before.get(name), after.get(name))


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
