"""Orders the files of a run so that its testers end together and seldom want the same thing.

Files that take longest begin first. Spark takes every processor there is; tests of crashes and
outages mostly wait for a lease or a time limit: taken in turns, one fills the other's pauses.
"""

from itertools import chain, zip_longest
from typing import Final

import pytest

BUSY: Final = "tests/spark/"
WAITING: Final = (
    "tests/crash/",
    "tests/functional/test_bad_database.py",
    "tests/functional/test_bad_input.py",
    "tests/functional/test_breakages.py",
    "tests/functional/test_devstack_servers.py",
    "tests/functional/test_dispatcher_processes.py",
    "tests/functional/test_engine.py",
    "tests/functional/test_formats.py",
    "tests/functional/test_key_order.py",
    "tests/functional/test_restore.py",
    "tests/functional/test_restore_deliveries.py",
    "tests/functional/test_sample.py",
    "tests/functional/test_sample_removal.py",
    "tests/functional/test_secured_kafka.py",
    "tests/functional/test_sending_outage.py",
    "tests/functional/test_sessions.py",
    "tests/functional/test_setup_provider.py",
    "tests/functional/test_shared_queue.py",
    "tests/functional/test_topic_identity.py",
    "tests/functional/test_worker_stalls.py",
)
# Of the others, what takes longer than a file of `functional`.
THEN: Final = ("tests/e2e/", "tests/contract/")


def in_order(files: list[str]) -> list[str]:
    """Every file once; within its kind each stays where chance (pytest-randomly) put it."""
    busy = [file for file in files if file.startswith(BUSY)]
    waiting = [file for file in files if file.startswith(WAITING)]
    turns = [file for file in chain(*zip_longest(busy, waiting)) if file is not None]
    then = [file for file in files if file.startswith(THEN)]
    return list(dict.fromkeys([*turns, *then, *files]))


def heavy_first(items: list[pytest.Item]) -> None:
    """Sort in place; the tests of a file stay as they were, but those that come last."""
    files = in_order(list(dict.fromkeys(_file(item) for item in items)))
    places = {file: place for place, file in enumerate(files)}
    items.sort(key=lambda item: (places[_file(item)], item.get_closest_marker("last") is not None))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
