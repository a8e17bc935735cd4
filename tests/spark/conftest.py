"""What the tests of a module share: a Spark driver, and the world that every job is asked in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.models import ObjectStructure, Queue
from tests.support import class_archive
from tests.support.builders import a_queue
from tests.support.bulk import an_asset_structure, shared_session, storing
from tests.support.every_job import World
from tests.support.kafka_world import Kafka
from tests.support.spark_driver import Drivers
from tests.support.tracks import tracked_since_yesterday


@pytest.fixture(scope="session", autouse=True)
def _classes_are_archived() -> None:
    class_archive.have_one_made()


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    known = Drivers(tmp_path_factory.mktemp("drivers"))
    yield known
    known.end()


@pytest.fixture
def yesterday(servers: Any) -> Iterator[None]:
    with tracked_since_yesterday():
        yield


@pytest.fixture
def world(servers: Any, yesterday: None, settings: Any, tmp_path: Path) -> World:
    root = tmp_path / "bulk"
    root.mkdir()
    settings.SLUICE_BULK_ROOT = root
    return World(Kafka(servers.kafka_bootstrap), root)


@pytest.fixture(scope="module")
def spark() -> Any:
    """The session that a module's tests share; a module may have one of its own."""
    return shared_session()


@pytest.fixture
def structure() -> ObjectStructure:
    return an_asset_structure()


@pytest.fixture
def queue(servers: Any, structure: ObjectStructure) -> Queue:
    """A queue that stores assets into the structure."""
    return storing(a_queue(Kafka(servers.kafka_bootstrap)), structure)
