"""The schemas' port in memory: what a registry has, and whether it answers."""

from integration.formats import port
from integration.formats.compiling import compiled
from integration.formats.schema import Registered, Schema, UnusableSchemaError
from integration.policy.failure import Failure

REGISTRY = "memory"


class MemorySchemas:
    """A registry of the test's own. `is_away`: it does not answer; what was found stays known."""

    def __init__(self, *registered: Registered) -> None:
        self.registered = {one.id: one for one in registered}
        self.is_away = False
        self.asked = 0
        self._known: dict[int, tuple[str, Schema]] = {}

    def at_hand(self, schema_id: int) -> Schema | None:
        known = self._known.get(schema_id)
        return None if known is None else known[1]

    def find(self, schema_id: int, *, anew: bool = False) -> Schema | Failure:
        known = self._known.get(schema_id)
        if known is not None and (self.is_away or not anew):
            return known[1]
        self.asked += 1
        if self.is_away:
            return port.away(REGISTRY, "it is away.")
        registered = self.registered.get(schema_id)
        if registered is None:
            return port.unknown(REGISTRY, schema_id)
        if known is not None and known[0] != registered.digest:
            return port.changed(REGISTRY, schema_id)
        try:
            schema = compiled(registered)
        except UnusableSchemaError as e:
            return port.unusable(schema_id, str(e))
        self._known[schema_id] = registered.digest, schema
        return schema
