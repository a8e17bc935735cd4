"""The schemas' port: in memory, and by HTTP from a registry with the real shelf behind it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from integration.formats.schema import Registered, Schema, SchemaKind
from integration.models import Provider
from integration.policy.failure import Failure, FailureClass
from integration.registries import known
from integration.registries.schemas import RegistrySchemas
from tests.support.avro import ORDER, an_avro
from tests.support.memory.schemas import MemorySchemas
from tests.support.small_registry import SmallRegistry

LATER: dict[str, Any] = {**ORDER, "fields": [{"name": "x", "type": "string"}]}


class MemoryWorld:
    def __init__(self) -> None:
        self.schemas = MemorySchemas()

    def put(self, schema_id: int, schema: object) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas.registered[schema_id] = Registered(
            id=schema_id, kind=SchemaKind.AVRO, text=text, subject="t-value", version=1
        )

    def away(self, *, is_away: bool = True) -> None:
        self.schemas.is_away = is_away

    @property
    def asked(self) -> int:
        return self.schemas.asked

    def later(self) -> None:
        """Nothing here is asked again by itself."""


class RegistryWorld:
    def __init__(self, registry: SmallRegistry) -> None:
        self.registry = registry
        self.clock = 0.0
        provider = Provider.objects.create(name="plant", registry_url=registry.url)
        client = known.RegistryClient(known.Address.of(provider))
        shelf = known.Shelf(provider.pk, client, lambda: self.clock)
        self.schemas = RegistrySchemas(shelf, "t")

    def put(self, schema_id: int, schema: object) -> None:
        self.registry.put(schema_id, schema)

    def away(self, *, is_away: bool = True) -> None:
        self.registry.status = 503 if is_away else 200

    @property
    def asked(self) -> int:
        return sum("/versions" not in path for path in self.registry.asked)

    def later(self) -> None:
        self.clock += known.AGAIN_SECONDS + 0.1


World = MemoryWorld | RegistryWorld


@pytest.fixture(
    params=[
        pytest.param("memory", marks=pytest.mark.fast),
        pytest.param("registry", marks=[pytest.mark.servers, pytest.mark.django_db]),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    request.getfixturevalue("db")
    yield RegistryWorld(request.getfixturevalue("small_registry"))


def failure(found: object) -> Failure:
    assert isinstance(found, Failure)
    return found


def test_a_schema_is_found_compiled_and_asked_for_once(world: World) -> None:
    world.put(7, ORDER)
    assert world.schemas.at_hand(7) is None
    schema = world.schemas.find(7)
    assert isinstance(schema, Schema)
    assert schema.facts == (7, "t-value", 1)
    assert schema.decode(an_avro({"n": 1, "do": None})) == {"n": 1, "do": None}
    assert world.schemas.find(7) is schema
    assert world.schemas.at_hand(7) is schema
    assert world.asked == 1


def test_an_absent_registry_is_an_outage_until_it_is_back(world: World) -> None:
    world.put(7, ORDER)
    world.away()
    found = failure(world.schemas.find(7))
    assert (found.kind, found.code) == (FailureClass.OUTAGE, "REGISTRY_AWAY")
    world.away(is_away=False)
    world.later()
    assert isinstance(world.schemas.find(7), Schema)


def test_what_is_known_stays_usable_without_the_registry(world: World) -> None:
    world.put(7, ORDER)
    schema = world.schemas.find(7)
    world.away()
    world.later()
    assert world.schemas.find(7, anew=True) is schema


def test_an_unknown_id_is_a_failure_of_its_message_and_not_for_good(world: World) -> None:
    found = failure(world.schemas.find(8))
    assert (found.kind, found.code) == (FailureClass.PERMANENT, "SCHEMA_UNKNOWN")
    world.put(8, ORDER)
    world.later()
    assert isinstance(world.schemas.find(8), Schema)


def test_another_schema_under_the_same_id_is_said(world: World) -> None:
    world.put(7, ORDER)
    world.schemas.find(7)
    world.put(7, LATER)
    world.later()
    found = failure(world.schemas.find(7, anew=True))
    assert (found.kind, found.code) == (FailureClass.PERMANENT, "SCHEMA_CHANGED")


@pytest.mark.servers
@pytest.mark.django_db
def test_a_process_keeps_the_newest_schemas_and_no_more_than_it_may(
    small_registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "MOST_SCHEMAS", 20)
    world = RegistryWorld(small_registry)
    for number in range(30):
        world.put(number, ORDER)
        assert isinstance(world.schemas.find(number), Schema)
    assert [number for number in range(30) if world.schemas.at_hand(number)] == [*range(10, 30)]
    for unknown in range(100, 115):
        failure(world.schemas.find(unknown))
    assert [number for number in range(30) if world.schemas.at_hand(number)] == [*range(25, 30)]
    asked = world.asked
    assert isinstance(world.schemas.find(0), Schema), "what was dropped is asked for again"
    assert world.asked == asked + 1


@pytest.mark.fast
def test_a_process_keeps_so_many_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST_REGISTRIES", 3)
    known.forget_everything()

    def shelf(number: int) -> known.Shelf | None:
        return known.shelf_of(Provider(pk=1, registry_url=f"http://127.0.0.1:1/{number}"))

    first, last = shelf(0), [shelf(number) for number in range(1, 4)][-1]
    assert shelf(3) is last
    assert shelf(0) is not first
    known.forget_everything()


def test_a_schema_that_is_none_is_said(world: World) -> None:
    world.put(7, '{"type": "nothing"}')
    found = failure(world.schemas.find(7))
    assert (found.kind, found.code) == (FailureClass.PERMANENT, "SCHEMA_NOT_READ")
