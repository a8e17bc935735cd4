"""Writing published documents by a schema of their provider's registry."""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from integration.formats.compiling import compiled
from integration.formats.port import MISFIT
from integration.formats.schema import Misfit, Schema, UnusableSchemaError
from integration.handlers.failures import OutageError
from integration.handlers.payloads import PayloadRefusedError
from integration.models import Provider
from integration.registries.client import Address, RegistryClient
from integration.registries.errors import (
    RegistryAwayError,
    RegistryError,
    RegistryRefusedError,
    SchemaNotFoundError,
)
from integration.registries.known import AGAIN_SECONDS
from integration.store.sessions import alias

# So long the latest version of a subject counts as the latest.
LATEST_SECONDS: Final = 30.0
MOST_SUBJECTS: Final = 1_000
# A registry that does not answer within this is left alone for a while, for all its subjects: who
# asks keeps the others waiting. What it refuses, however slowly, is an answer about one subject.
SLOW_SECONDS: Final = 0.2
Place = tuple[int, str, str, int | None]
"""A provider's number, the address of its registry, a subject, and a version; None: the latest."""


class SubjectUnknownError(PayloadRefusedError):
    """The registry has no such subject, or no such version of it."""

    code = "SUBJECT_UNKNOWN"


@dataclass(frozen=True, slots=True)
class _Chosen:
    schema: Schema
    at: float


@dataclass(frozen=True, slots=True)
class _Away:
    """The answer that a registry did not give, as an outage tells it."""

    text: str
    code: str
    at: float


@dataclass(slots=True)
class _Registry:
    """A provider's registry: one thread asks it, the others wait for what it says."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    away: dict[Place | None, _Away] = field(default_factory=dict)
    """by subject; None: of all of them"""

    def lately(self, place: Place) -> _Away | None:
        """Return the answer that it did not give a moment ago, if there is one."""
        for one in (self.away.get(None), self.away.get(place)):
            if one is not None and time.monotonic() - one.at < AGAIN_SECONDS:
                return one
        return None

    def note(self, place: Place, problem: RegistryError, *, is_for_all: bool) -> _Away:
        if len(self.away) > MOST_SUBJECTS:
            self.away.clear()
        away = _Away(str(problem), problem.code, time.monotonic())
        self.away[None if is_for_all else place] = away
        return away


_chosen: Final[OrderedDict[Place, _Chosen]] = OrderedDict()
_registries: Final[dict[tuple[int, str], _Registry]] = {}
# Nobody is asked while it is held: a registry that hangs keeps nobody from what is known.
_lock: Final = threading.Lock()


def encode(
    provider_id: int, registry: str, subject: str, version: int | None, document: object
) -> bytes:
    """Return a record of the document. Raises PayloadRefusedError, OutageError.

    `registry` is the address of the provider's registry now: what another one said does not count.
    """
    schema = _schema((provider_id, registry, subject, version))
    record = schema.encode(document)
    if isinstance(record, Misfit):
        text = f"The payload does not fit the schema {schema}. {record}"
        raise PayloadRefusedError(text, code=MISFIT)
    return record


def forget_subjects() -> None:
    """Ask again for every subject, as a new process does."""
    with _lock:
        _chosen.clear()
        _registries.clear()


def _schema(place: Place) -> Schema:
    known = _fresh(place)
    if known is not None:
        return known
    with _lock:
        registry = _registries.setdefault(place[:2], _Registry())
    with registry.lock:
        # Whoever had the lock may have asked for it meanwhile.
        return _fresh(place) or _found(place, registry)


def _fresh(place: Place) -> Schema | None:
    """Return a schema that still counts as the latest; asks nobody."""
    with _lock:
        known = _chosen.get(place)
    is_fresh = known is not None and time.monotonic() - known.at < LATEST_SECONDS
    return known.schema if known is not None and is_fresh else None


def _found(place: Place, registry: _Registry) -> Schema:
    """Ask for a schema, unless the registry did not answer just now."""
    away, fresh_for = registry.lately(place), AGAIN_SECONDS
    if away is None:
        began, fresh_for = time.monotonic(), LATEST_SECONDS
        try:
            return _keep(place, _asked(place))
        except (RegistryAwayError, RegistryRefusedError) as e:
            is_slow = time.monotonic() - began > SLOW_SECONDS
            away = registry.note(place, e, is_for_all=is_slow and isinstance(e, RegistryAwayError))
    with _lock:
        known = _chosen.get(place)
    if known is None:
        raise OutageError(away.text, code=away.code)
    # A version never changes; whether there is a later one is asked again in a while.
    return _keep(place, known.schema, fresh_for)


def _keep(place: Place, schema: Schema, fresh_for: float = LATEST_SECONDS) -> Schema:
    with _lock:
        _chosen[place] = _Chosen(schema, time.monotonic() - LATEST_SECONDS + fresh_for)
        _chosen.move_to_end(place)
        while len(_chosen) > MOST_SUBJECTS:
            _chosen.popitem(last=False)
    return schema


def _asked(place: Place) -> Schema:
    provider_id, _, subject, version = place
    provider = Provider.objects.using(alias()).get(pk=provider_id)
    if not provider.registry_url:
        text = f"The provider {provider} has no schema registry, and the channel writes by one."
        raise PayloadRefusedError(text, code="NO_REGISTRY")
    client = RegistryClient(Address.of(provider))
    try:
        return compiled(client.version(subject, version))
    except SchemaNotFoundError as e:
        which = "" if version is None else f" in version {version}"
        text = f"The registry {client.url} has no subject {subject}{which}: {e.what}"
        raise SubjectUnknownError(text) from e
    except UnusableSchemaError as e:
        raise PayloadRefusedError(f"{subject}: {e}", code=e.code) from e
    finally:
        client.close()
