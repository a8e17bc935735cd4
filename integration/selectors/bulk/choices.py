"""What forms of bulk jobs offer: names of queues and structures, and the shape of a structure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from integration.models import ObjectStructure, Queue
from integration.selectors.scope import Scope


@dataclass(frozen=True, slots=True)
class Shape:
    """What a structure says of its documents; JSON Schema or None."""

    key_paths: Sequence[str]
    version_path: str
    json_schema: Any


def queue_names(scope: Scope, *, direction: str = "") -> list[str]:
    """The queues that this person may know of; `direction` narrows them."""
    found = Queue.objects.filter(scope.within("system"))
    if direction:
        found = found.filter(direction=direction)
    return list(found.order_by("name").values_list("name", flat=True))


def structure_names() -> list[str]:
    """Structures belong to all external systems: for people whom nothing limits."""
    return list(ObjectStructure.objects.order_by("name").values_list("name", flat=True))


def shape_of(structure: str) -> Shape | None:
    """None when there is no such structure."""
    found = ObjectStructure.objects.filter(name=structure).first()
    if found is None:
        return None
    return Shape([str(path) for path in found.key_paths], found.version_path, found.json_schema)
