"""The worlds in which the repository's and the partition manager's contract holds."""

from collections.abc import Iterator

import pytest

from integration.delivery.owned import Owned
from tests.contract.repository_worlds import DatabaseWorld, MemoryWorld, World


@pytest.fixture(
    params=[
        pytest.param("memory", marks=pytest.mark.fast),
        pytest.param(
            "database", marks=[pytest.mark.servers, pytest.mark.django_db(transaction=True)]
        ),
    ]
)
def tables(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    request.getfixturevalue("transactional_db")
    world = DatabaseWorld()
    yield world
    world.close()


@pytest.fixture
def owned(tables: World) -> Owned:
    """The first partition, in the hands of a run."""
    return tables.manager().take()[0]
