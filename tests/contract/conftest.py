"""The worlds in which the repository's and the partition manager's contract holds."""

from collections.abc import Iterator
from typing import Any

import pytest

from integration.delivery.owned import Owned
from tests.contract.repository_world import World
from tests.contract.repository_worlds import DatabaseWorld, MemoryWorld


@pytest.fixture(scope="module")
def worlds() -> tuple[type[Any], type[Any]]:
    """The fake's and the database's; a file that needs more of its worlds has its own."""
    return MemoryWorld, DatabaseWorld


@pytest.fixture(
    params=[
        pytest.param("memory", marks=pytest.mark.fast),
        pytest.param(
            "database", marks=[pytest.mark.servers, pytest.mark.django_db(transaction=True)]
        ),
    ]
)
def tables(request: pytest.FixtureRequest, worlds: tuple[type[Any], type[Any]]) -> Iterator[World]:
    memory, database = worlds
    if request.param == "memory":
        yield memory()
        return
    request.getfixturevalue("transactional_db")
    world = database()
    yield world
    world.close()


@pytest.fixture
def owned(tables: World) -> Owned:
    """The first partition, in the hands of a run."""
    return tables.manager().take()[0]
