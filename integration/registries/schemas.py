"""The real adapter of the schemas' port: one topic's messages, one provider's registry."""

from integration.formats.schema import Schema
from integration.models import Provider
from integration.policy.failure import Failure
from integration.registries.known import Shelf, shelf_of


class RegistrySchemas:
    """Schemas as integration.formats.port asks for them."""

    def __init__(self, shelf: Shelf, topic: str) -> None:
        self._shelf = shelf
        self._topic = topic

    def at_hand(self, schema_id: int) -> Schema | None:
        return self._shelf.at_hand(schema_id, self._topic)

    def find(self, schema_id: int, *, anew: bool = False) -> Schema | Failure:
        return self._shelf.find(schema_id, self._topic, anew=anew)


def schemas_for(provider: Provider, topic: str) -> RegistrySchemas | None:
    """Return the schemas of a topic's messages; None where the provider has no registry."""
    shelf = shelf_of(provider)
    return None if shelf is None else RegistrySchemas(shelf, topic)
