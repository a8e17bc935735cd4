"""The Spark driver that the tests of a module share."""

from collections.abc import Iterator

import pytest

from tests.support.spark_driver import Drivers


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    known = Drivers(tmp_path_factory.mktemp("drivers"))
    yield known
    known.end()
