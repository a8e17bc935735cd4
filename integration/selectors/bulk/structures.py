"""Object structures, as forms of bulk jobs offer them."""

from integration.models import ObjectStructure


def structure_names() -> list[str]:
    """Structures belong to all external systems: for people whom nothing limits."""
    return list(ObjectStructure.objects.order_by("name").values_list("name", flat=True))


def structure_named(name: str) -> ObjectStructure | None:
    return ObjectStructure.objects.filter(name=name).first()
