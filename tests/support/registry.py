"""A real schema registry, one for all tests of a file: each registers by subjects of its own."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import ports
from devstack.registry import Registry
from devstack.supervise import Process
from tests.support.small_registry import SmallRegistry


@pytest.fixture(scope="module")
def schema_registry() -> Iterator[Registry]:
    """Apicurio; started by the first who asks, and ended with the file."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-registry-"))
    Process("owner", folder).remember(os.getpid())
    registry = Registry(folder, ports.choose(), durable=False)
    try:
        registry.start()
        yield registry
    finally:
        registry.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def small_registry() -> Iterator[SmallRegistry]:
    """A registry of the test's own, to be made to fail."""
    registry = SmallRegistry()
    yield registry
    registry.close()
