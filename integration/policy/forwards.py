"""Forwards, the pure part: circles among them, and a message's own trail.

They lead from topic to topic of Kafka, or to a JMS broker and back from there.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

# The header in which each forward notes itself: the trail of a message, its names by commas.
TRAIL: Final = "sluice-forwards"
# The same at a JMS broker: the name of a property has no hyphen.
TRAIL_PROPERTY: Final = "sluice_forwards"
# A longer way is nobody's intention.
MOST_FORWARDS: Final = 16
# A topic: the addresses of its cluster, and its name. Of a JMS broker: see `jms_place`.
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


def jms_place(host: str, port: int, kind: str, address: str) -> Place:
    """Return a queue or topic of a JMS broker, as one of its servers has it; `kind` says which.

    >>> jms_place("Broker", 5672, "queue", "orders")
    ('queue at broker:5672', 'orders')
    """
    return f"{kind} at {host.lower()}:{port}", address


def goes_round(trail: Sequence[str], place: str) -> str:
    """Return why a message of this trail is not forwarded by this forward, or nothing."""
    if place not in trail and len(trail) < MOST_FORWARDS:
        return ""
    way = ", ".join(trail[-MOST_FORWARDS:])
    return (
        f"It goes round: it was forwarded by {way} already, and would be again. It goes no further."
    )


def onward(trail: Sequence[str], place: str) -> str:
    """Return the trail of what this forward writes.

    >>> onward(["plant/one"], "plant/two")
    'plant/one,plant/two'
    """
    return ",".join([*trail, place]).encode("ascii", "replace").decode()
