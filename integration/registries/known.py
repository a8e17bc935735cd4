"""The schemas that this process knows: one shelf for each registry, bounded, asked for anew.

A schema never changes under its id, unless its registry is built anew. So each is asked for again
after a while: another one under the same id is told, and neither of them is used.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import DatabaseError

from integration.formats import port
from integration.formats.compiling import compiled
from integration.formats.schema import Registered, Schema, UnusableSchemaError
from integration.models import Provider, RegistrySchema
from integration.models.registry_schema import SUBJECT_CHARACTERS
from integration.policy.failure import Failure, FailureClass
from integration.registries.client import Address, RegistryClient
from integration.registries.errors import (
    RegistryAwayError,
    RegistryCertificateError,
    RegistryRefusedError,
    SchemaNotFoundError,
)
from integration.store.sessions import alias

# So long a schema counts as asked for just now.
FRESH_SECONDS: Final = 15.0
# So long an unknown id, or a registry that did not answer, is not asked again.
AGAIN_SECONDS: Final = 1.0
MOST_SCHEMAS: Final = 1_000
MOST_REGISTRIES: Final = 50

Key = tuple[int, str]
"""A schema's id, and the topic whose messages it is used for: its subject is the topic's."""


@dataclass(slots=True)
class _Kept:
    """What is known of one id, since when; `is_schema`: the registry has it."""

    found: Schema | Failure
    at: float
    is_schema: bool


class Shelf:
    """What is known of one registry. Shared by the threads of a process."""

    def __init__(
        self, provider_id: int, client: RegistryClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.client = client
        self._provider_id = provider_id
        self._clock = clock
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._away: Failure | None = None
        self._away_at = float("-inf")
        self._lock = threading.Lock()

    def at_hand(self, schema_id: int, topic: str) -> Schema | None:
        """Return a schema that is fresh; asks nobody."""
        kept = self._kept.get((schema_id, topic))
        if kept is None or self._clock() - kept.at >= FRESH_SECONDS:
            return None
        return kept.found if isinstance(kept.found, Schema) else None

    def find(self, schema_id: int, topic: str, *, anew: bool = False) -> Schema | Failure:
        """Return the schema, or why there is none: one thread asks, the others wait for it."""
        known = None if anew else self.at_hand(schema_id, topic)
        if known is not None:
            return known
        with self._lock:
            return self._found((schema_id, topic), AGAIN_SECONDS if anew else FRESH_SECONDS)

    def told(self, schema_id: int, topic: str) -> Registered | Failure:
        """Ask for a schema as it stands in the registry: whoever reads by it has no registry."""
        registered = self._asked((schema_id, topic))
        if isinstance(registered, Failure):
            return registered
        return self._objection(registered) or registered

    def _found(self, key: Key, fresh_seconds: float) -> Schema | Failure:
        now, kept = self._clock(), self._kept.get(key)
        if kept is not None and now - kept.at < (
            fresh_seconds if kept.is_schema else AGAIN_SECONDS
        ):
            return kept.found
        if self._away is not None and now - self._away_at < AGAIN_SECONDS:
            return self._without(kept, self._away)
        registered = self._asked(key)
        if isinstance(registered, Failure):
            if registered.kind is FailureClass.OUTAGE:
                return self._away_now(kept, registered)
            return self._keep(key, registered, is_schema=False)
        self._away = None
        return self._judged(key, registered)

    def _asked(self, key: Key) -> Registered | Failure:
        try:
            return self.client.schema(*key)
        except RegistryAwayError as e:
            return port.away(e.registry, e.why)
        except RegistryCertificateError as e:
            return port.not_secure(e.registry, e.why)
        except RegistryRefusedError as e:
            return port.refused(e.registry, e.why)
        except SchemaNotFoundError as e:
            return port.unknown(e.registry, key[0])

    def _objection(self, registered: Registered) -> Failure | None:
        """Return why this is not what stood under the id before, or cannot be compared with it."""
        try:
            is_same = remember(self._provider_id, self.client.url, registered)
        except DatabaseError:
            return port.away(self.client.url, "what it says cannot be compared with what it said.")
        return None if is_same else port.changed(self.client.url, registered.id)

    def _judged(self, key: Key, registered: Registered) -> Schema | Failure:
        objection = self._objection(registered)
        if objection is not None:
            is_away = objection.kind is FailureClass.OUTAGE
            return objection if is_away else self._keep(key, objection, is_schema=False)
        try:
            schema: Schema | Failure = compiled(registered)
        except UnusableSchemaError as e:
            schema = port.unusable(registered.id, str(e))
        return self._keep(key, schema, is_schema=True)

    def _away_now(self, kept: _Kept | None, failure: Failure) -> Schema | Failure:
        self._away, self._away_at = failure, self._clock()
        return self._without(kept, failure)

    def _without(self, kept: _Kept | None, failure: Failure) -> Schema | Failure:
        """Go on by what was known before the registry went away; ask again in a while."""
        if kept is None or not kept.is_schema:
            return failure
        kept.at = self._clock()
        return kept.found

    def _keep(self, key: Key, found: Schema | Failure, *, is_schema: bool) -> Schema | Failure:
        self._kept[key] = _Kept(found, self._clock(), is_schema)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_SCHEMAS:
            self._kept.popitem(last=False)
        return found


def remember(provider_id: int, registry: str, registered: Registered) -> bool:
    """Note a schema for good; False where the registry had another one under its id.

    Raises Django's database errors.
    """
    row, _ = RegistrySchema.objects.using(alias()).get_or_create(
        provider_id=provider_id,
        registry=registry,
        schema_id=registered.id,
        defaults={
            "kind": registered.kind,
            "subject": registered.subject[:SUBJECT_CHARACTERS],
            "version": registered.version,
            "digest": registered.digest,
        },
    )
    return row.digest == registered.digest


_shelves: Final[OrderedDict[tuple[int, Address], Shelf]] = OrderedDict()
_shelves_lock: Final = threading.Lock()


def shelf_of(provider: Provider) -> Shelf | None:
    """Return what this process knows of a provider's registry; None where it has none.

    Another address or login is another registry: nothing is known of it yet.
    """
    if not provider.registry_url:
        return None
    key = provider.pk, Address.of(provider)
    with _shelves_lock:
        shelf = _shelves.get(key)
        if shelf is None:
            shelf = _shelves[key] = Shelf(provider.pk, RegistryClient(key[1]))
        _shelves.move_to_end(key)
        while len(_shelves) > MOST_REGISTRIES:
            _, old = _shelves.popitem(last=False)
            old.client.close()
        return shelf


def forget_everything() -> None:
    """Begin anew, as a new process does."""
    with _shelves_lock:
        for shelf in _shelves.values():
            shelf.client.close()
        _shelves.clear()
