"""Which tests run when no Chromium can be had: none that need it, and nobody overlooks that."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from devstack import chromium
from tests.support.fast_files import find_all
from tests.support.heavy_first import heavy_first

MARK = "browser"


# After -m and -k: a run that does not want the browser's tests does not miss them.
@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Heavy files first; without a browser its tests are left out, loudly (a failure under CI)."""
    find_all(items)
    yield
    heavy_first(items)
    if chromium.find() is not None:
        return
    kept = [item for item in items if item.get_closest_marker(MARK) is None]
    left_out = [item for item in items if item.get_closest_marker(MARK) is not None]
    if not left_out:
        return
    if is_compulsory(os.environ):
        pytest.exit(chromium.MISSING, returncode=1)
    config.stash[LEFT_OUT] = [item.nodeid for item in left_out]
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def is_compulsory(variables: Mapping[str, str]) -> bool:
    """Under CI a suite that leaves tests out has failed."""
    return variables.get("CI", "").lower() in {"1", "true", "yes"}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    names = config.stash.get(LEFT_OUT, [])
    if names:
        terminalreporter.section("TESTS THAT DID NOT RUN", sep="!", red=True, bold=True)
        terminalreporter.line(chromium.MISSING)
        for name in names:
            terminalreporter.line(f"  {name}")


@pytest.fixture(scope="session")
def chromium_program() -> Path:
    """The browser's program, for Playwright's `executable_path`."""
    found = chromium.find()
    assert found is not None, chromium.MISSING
    return found


LEFT_OUT = pytest.StashKey[list[str]]()
