"""Keeps files on one tester that share something dear: a Spark session, a browser, a broker.

Each further tester would start it, and warm it, for itself.
"""

from typing import Any, Final

import pytest

SPARK: Final = "tests/spark/"
# Those of its files that start Spark in processes of their own, and have little of what is shared.
APART: Final = ("tests/spark/test_driver.py", "tests/spark/test_submit.py")
LOGINS: Final = "a Kafka that asks for logins"
# What is shared, with the files that share it; each other file is dealt out alone.
SHARED: Final = {
    "a Spark session": (SPARK, "tests/e2e/test_bulk_import.py"),
    "a browser": ("tests/e2e/",),
    LOGINS: (
        "tests/functional/test_secured_kafka.py",
        "tests/functional/test_setup_provider.py",
    ),
    "a JMS broker": (
        "tests/functional/test_jms_circles.py",
        "tests/functional/test_jms_depth.py",
        "tests/functional/test_jms_idle.py",
        "tests/functional/test_jms_java.py",
        "tests/functional/test_jms_roads.py",
        "tests/functional/test_jms_selectors.py",
        "tests/functional/test_jms_source.py",
        "tests/functional/test_jms_waiting.py",
        "tests/functional/test_endpoint_amqp.py",
        "tests/functional/test_payments.py",
        "tests/crash/test_jms_crash.py",
        "tests/crash/test_amqp_crash.py",
    ),
}


def file_of(item: pytest.Item) -> str:
    """The item's file, as `group_of` takes it."""
    return item.nodeid.partition("::")[0]


def group_of(file: str) -> str:
    """What the file shares with others, else the file itself."""
    if file in APART:
        return file
    return next((name for name, files in SHARED.items() if file.startswith(files)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out by files, as `--dist loadfile` does, and groups of them as one."""
    if config.getoption("dist") != "loadfile":
        return None
    # Only where a run has several testers is it there.
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(super()._split_scope(nodeid))

    return Together(config, log)
