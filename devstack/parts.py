"""The parts of Sluice on one machine: a table of its processes, and which of them are wanted."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from devstack import remembered
from devstack.errors import Problem

CELERY = ("-m", "celery", "-A", "config")


@dataclass(frozen=True)
class Part:
    """One process: its name, its title for people, and the arguments Python runs it with.

    `says` is what its log shows once it works.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    says: str = ""


PARTS = (
    Part(
        "web",
        "Console",
        (
            *("-m", "gunicorn", "config.wsgi", "--preload"),
            *("--worker-class", "console.server.worker.BufferedWorker", "--workers", "2"),
            # For the console, and as many again for the HTTP API.
            *("--threads", "4", "--no-control-socket"),
            *("--bind", "127.0.0.1:{web_port}"),
        ),
    ),
    Part(
        "worker",
        "Worker",
        (*CELERY, "worker", "-Q", "celery", "-c", "3", "-n", "worker@%h", "--loglevel", "INFO"),
        says=" ready.",
    ),
    Part(
        "relay",
        "Relay worker",
        (*CELERY, "worker", "-Q", "relay", "-c", "1", "-n", "relay@%h", "--loglevel", "INFO"),
        says=" ready.",
    ),
    Part(
        "beat", "Beat", (*CELERY, "beat", "--pidfile=", "--loglevel", "INFO"), says="beat: Starting"
    ),
    Part("spark", "Spark driver", ("manage.py", "run_spark_driver"), says=" ready."),
    Part(
        "partner",
        "Sample partner",
        ("-m", "sample.partner", "--folder", "{files}/sample/supplier"),
        says="listens on port",
    ),
    Part(
        "sample",
        "Sample traffic",
        ("manage.py", "sample_traffic", "--http-api", "http://127.0.0.1:{web_port}"),
    ),
)
SPARK = "spark"
OF_THE_SAMPLE = frozenset({"partner", "sample"})
SWITCH = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def wanted(variables: Mapping[str, str] = os.environ) -> list[Part]:
    """The parts of `make run`, without what was switched off. Raises Problem BAD_SWITCH."""
    left = set() if shows_sample(variables) else set(OF_THE_SAMPLE)
    if not _is_on("SPARK", variables):
        left.add(SPARK)
    return [part for part in PARTS if part.name not in left]


def shows_sample(variables: Mapping[str, str]) -> bool:
    """Return whether the sample's configuration is the first data, and its traffic runs.

    It is unless `make run SAMPLE=0` says no, or it is not installed. Raises Problem BAD_SWITCH.
    """
    apps = remembered.integrations({}, variables).split(",")
    is_on = _is_on("SAMPLE", variables)
    return is_on and remembered.AT_FIRST in [app.strip() for app in apps]


def is_secured(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether `make run SECURED=1` wants logins and certificates. Raises BAD_SWITCH."""
    return is_switched_on("SECURED", variables)


def is_switched_on(name: str, variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether `make run NAME=1` wants what is off by itself. Raises BAD_SWITCH."""
    return bool(variables.get(name, "").strip()) and _is_on(name, variables)


def _is_on(name: str, variables: Mapping[str, str]) -> bool:
    value = variables.get(name, "").strip().lower()
    if value not in SWITCH:
        raise Problem("BAD_SWITCH", f"{name} is {value!r}.", "Write 1 or 0, then try again.")
    return SWITCH[value]
