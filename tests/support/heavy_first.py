"""Orders the files of a run so that its testers end together and seldom want the same thing.

What takes one tester longest begins first: the files that share a Spark session, then those that
share a browser (tests/support/kept_together.py). These are busy all the time; beside them the other
testers begin with crashes and outages, which mostly wait for a lease or a time limit. Then come the
other long files: one that begins last would be waited for when all else is done.
"""

from typing import Final

import pytest

from tests.support.kept_together import APART, file_of

BUSY: Final = ("tests/spark/", "tests/e2e/")
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
    "tests/functional/test_topic_truncated.py",
    "tests/functional/test_worker_stalls.py",
)
# Of the others, what takes one tester of four more than 18 seconds; then what takes longer than a
# file of `functional`.
THEN: Final = (
    "tests/functional/test_wheel.py",
    "tests/functional/test_company_login.py",
    "tests/functional/test_console_access.py",
    "tests/functional/test_console_branches.py",
    "tests/functional/test_console_limits.py",
    "tests/functional/test_crontasks_flow.py",
    "tests/functional/test_group_mode.py",
    "tests/functional/test_idle_watch.py",
    "tests/functional/test_leadership.py",
    "tests/functional/test_masking_planted.py",
    "tests/functional/test_mounted_console.py",
    "tests/functional/test_operator_api_openapi.py",
    "tests/functional/test_operator_api_rights.py",
    "tests/functional/test_server.py",
    "tests/functional/test_setup_pages.py",
    "tests/functional/test_setup_queues.py",
    "tests/functional/test_standby_reads.py",
    "tests/functional/test_upgrade.py",
    "tests/functional/test_xa.py",
    "tests/functional/test_xa_troubles.py",
    "tests/unit/bulk/test_reading_memory.py",
    "tests/contract/",
)


def in_order(files: list[str]) -> list[str]:
    """Every file once; within its kind each stays where chance (pytest-randomly) put it."""
    others = [file for file in files if file not in APART]
    heavy = [file for kind in (*BUSY, WAITING) for file in others if file.startswith(kind)]
    then = [file for kind in (APART, *THEN) for file in files if file.startswith(kind)]
    return list(dict.fromkeys([*heavy, *then, *files]))


def heavy_first(items: list[pytest.Item]) -> None:
    """Sort in place; the tests of a file stay as they were, but those that come last."""
    files = in_order(list(dict.fromkeys(file_of(item) for item in items)))
    places = {file: place for place, file in enumerate(files)}
    items.sort(
        key=lambda item: (places[file_of(item)], item.get_closest_marker("last") is not None)
    )
