"""Forwards from topic to topic, the pure part: circles among them, and a message's own trail."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

# The header in which each forward notes itself: the trail of a message, its names by commas.
TRAIL: Final = "sluice-forwards"
# A longer way is nobody's intention.
MOST_FORWARDS: Final = 16
# A topic: the addresses of its cluster, and its name.
Place = tuple[str, str]


def circle(forwards: Mapping[Place, Sequence[tuple[str, Place]]], start: Place) -> list[str]:
    """Return the names of the forwards by which a topic feeds itself, in order; none: empty.

    >>> circle({("k", "a"): [("x", ("k", "b"))], ("k", "b"): [("y", ("k", "a"))]}, ("k", "a"))
    ['x', 'y']
    """
    ways: deque[tuple[Place, list[str]]] = deque([(start, [])])
    seen: set[Place] = set()
    while ways:
        place, way = ways.popleft()
        for name, target in forwards.get(place, ()):
            if target == start:
                return [*way, name]
            if target not in seen:
                seen.add(target)
                ways.append((target, [*way, name]))
    return []


def trail_of(headers: Iterable[tuple[str, bytes | None]]) -> list[str]:
    """Return the forwards that a record came by, as its headers say; never raises.

    >>> trail_of([("a", None), (TRAIL, b"plant/one,plant/two")])
    ['plant/one', 'plant/two']
    """
    trail: list[str] = []
    for name, value in headers:
        if name == TRAIL and value:
            trail += filter(None, value.decode("ascii", "replace").split(","))
    return trail
