"""The object storage of a tester: one for all files that ask for it."""

from collections.abc import Iterator

import pytest

from bench.object_storage import ObjectStorage


@pytest.fixture(scope="session")
def object_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStorage]:
    started = ObjectStorage(tmp_path_factory.mktemp("object-storage"))
    yield started
    started.close()
