"""What forms of bulk jobs offer: names of queues and structures, and one structure."""

from integration.models import ObjectStructure, Queue
from integration.selectors.scope import Scope


def queue_names(scope: Scope, *, direction: str = "") -> list[str]:
    """The queues that this person may know of; `direction` narrows them."""
    queues = Queue.objects.filter(scope.within("system"))
    if direction:
        queues = queues.filter(direction=direction)
    return list(queues.order_by("name").values_list("name", flat=True))


def structure_names() -> list[str]:
    """Structures belong to all external systems: for people whom nothing limits."""
    return list(ObjectStructure.objects.order_by("name").values_list("name", flat=True))


def structure_named(name: str) -> ObjectStructure | None:
    return ObjectStructure.objects.filter(name=name).first()
