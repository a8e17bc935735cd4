"""The set-up: everything a first run fetches, done again only when what it stands for changed."""

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from devstack import (
    chromium,
    environment,
    errors,
    frontend,
    jars,
    java,
    kafka_classes,
    paths,
)
from devstack.beside import Beside
from devstack.progress import loud, say, step
from devstack.tool import side_by_side

# With empty package caches the first run takes 2.7 GB, most of them the installer's cache.
FIRST_MEGABYTES = 3_000
LATER_MEGABYTES = 500
ARTEMIS = "artemis"


def everything(*, with_spark: bool = False, beside: Sequence[Beside] = ()) -> None:
    """Fetch and build what is missing. Raises the first Problem."""
    with _one_at_a_time():
        with step("Machine") as under_way:
            under_way.note = f"{_check_disk():,} MB free, Java {java.version_of(java.find())}"
        if not environment.is_ready():
            with step("Python packages", at_first="about half a minute the first time"):
                environment.install()
        more = [each.jars for each in beside]
        tasks: list[Callable[[], None]] = [_kafka, _frontend, _chromium]
        tasks += [partial(_jars, name) for name in (*(["spark"] if with_spark else []), *more)]
        if ARTEMIS in more:
            tasks.append(_amqp)
        side_by_side(tasks)


def _check_disk() -> int:
    free_megabytes = shutil.disk_usage(paths.ROOT).free // 1_000_000
    needed = LATER_MEGABYTES if environment.is_ready() else FIRST_MEGABYTES
    if free_megabytes < needed:
        raise errors.Problem(
            "DISK_FULL",
            f"Only {free_megabytes:,} MB are free where {paths.ROOT} lies; "
            f"the stack needs {needed:,} MB.",
            "Make room there, or move the checkout to a larger disk.",
        )
    return free_megabytes


def _kafka() -> None:
    _jars("kafka")
    if not kafka_classes.are_ready():
        with step("Classes of Kafka"):
            kafka_classes.make()


def _jars(configuration: str) -> None:
    if not jars.is_ready(configuration):
        title = f"Jars of {configuration.title()}"
        with step(title, at_first="about half a minute the first time"):
            jars.fetch(configuration)


def _amqp() -> None:
    if not environment.has_amqp():
        with step("AMQP library", at_first="about half a minute the first time"):
            is_built = environment.install_amqp()
        if not is_built:
            loud(environment.NO_AMQP)


def _frontend() -> None:
    if not frontend.is_ready():
        with step("Console's files"):
            frontend.build()


def _chromium() -> None:
    if chromium.wants_installation():
        with step("Chromium", at_first="up to a few minutes the first time"):
            browser = chromium.install()
        if browser is None:
            loud(chromium.MISSING)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two set-ups of one checkout would fetch into each other's folders."""
    paths.FETCHED.mkdir(exist_ok=True)
    with (paths.FETCHED / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  ..  another set-up of this checkout is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
