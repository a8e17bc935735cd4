"""Has each tester of a run compile a share of the test files, and find the others compiled.

All load the same files in the same order, and what pytest makes of a file for its assertions costs
more than all else of loading it: without this, testers that begin together do all of it each.
"""

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.support.fast_files import is_passed_over

TESTS: Final = Path(__file__).resolve().parents[1]
# What a file may say when it is loaded: its own collection says it again, where it is heard.
ITS_OWN: Final = (Exception, pytest.skip.Exception)


# By then pytest knows for which files it is asked; before, it would leave them as they are.
def pytest_collectstart(collector: pytest.Collector) -> None:
    tester = os.environ.get("PYTEST_XDIST_WORKER")
    if tester is None or not isinstance(collector, pytest.Directory) or collector.path != TESTS:
        return
    config = collector.config
    if [Path(name).resolve() for name in config.args] != [TESTS]:
        return
    files = [file for file in sorted(TESTS.rglob("test_*.py")) if not is_passed_over(file, config)]
    testers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    first = len(files) * int(tester.removeprefix("gw")) // testers
    for file in files[first:] + files[:first]:
        with suppress(*ITS_OWN):
            import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))
