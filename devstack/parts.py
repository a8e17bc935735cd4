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
        (
            *(*CELERY, "worker", "-Q", "relay", "-P", "solo", "-c", "1"),
            *("-n", "relay@%h", "--loglevel", "INFO"),
        ),
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
    Part("payments", "Payment traffic", ("manage.py", "payments_traffic")),
)
SPARK = "spark"
PAYMENTS = "payments"
PAYMENTS_SWITCH = "PAYMENTS"
OF_THE_SAMPLE = frozenset({"partner", "sample"})
SWITCH = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def wanted(variables: Mapping[str, str] = os.environ) -> list[Part]:
    """The parts of `make run`, without what was switched off. Raises Problem BAD_SWITCH."""
    left = set() if shows_sample(variables) else set(OF_THE_SAMPLE)
    if not _is_on("SPARK", variables):
        left.add(SPARK)
    return [part for part in known(variables) if part.name not in left]


def known(variables: Mapping[str, str]) -> list[Part]:
    """The parts whose apps are installed, or will be. Raises Problem BAD_SWITCH."""
    has_payments = shows_payments(variables)
    return [part for part in PARTS if part.name != PAYMENTS or has_payments]


def shows_sample(variables: Mapping[str, str]) -> bool:
    """Return whether the sample's configuration is the first data, and its traffic runs.

    It is unless `make run SAMPLE=0` says no, or it is not installed. Raises Problem BAD_SWITCH.
    """
    is_on = _is_on("SAMPLE", variables)
    return is_on and remembered.AT_FIRST in _apps(remembered.integrations({}, variables))


def shows_payments(variables: Mapping[str, str]) -> bool:
    """Return whether the payment example is installed. Raises Problem BAD_SWITCH."""
    apps = remembered.integrations({}, variables)
    return PAYMENTS in _apps(with_payments(apps, variables))


def with_payments(apps: str, variables: Mapping[str, str] = os.environ) -> str:
    """The apps with handlers, and the payment example as `make run PAYMENTS=1` or `=0` wants it.

    Raises Problem BAD_SWITCH.
    """
    if not variables.get(PAYMENTS_SWITCH, "").strip():
        return apps
    is_there, is_wanted = PAYMENTS in _apps(apps), _is_on(PAYMENTS_SWITCH, variables)
    if is_there == is_wanted:
        return apps
    others = [app for app in _apps(apps) if app != PAYMENTS]
    return ",".join([*others, PAYMENTS] if is_wanted else others)


def is_secured(variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether `make run SECURED=1` wants logins and certificates. Raises BAD_SWITCH."""
    return is_switched_on("SECURED", variables)


def is_switched_on(name: str, variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether `make run NAME=1` wants what is off by itself. Raises BAD_SWITCH."""
    return bool(variables.get(name, "").strip()) and _is_on(name, variables)


def _apps(listed: str) -> list[str]:
    return [app for name in listed.split(",") if (app := name.strip())]


def _is_on(name: str, variables: Mapping[str, str]) -> bool:
    value = variables.get(name, "").strip().lower()
    if value not in SWITCH:
        raise Problem("BAD_SWITCH", f"{name} is {value!r}.", "Write 1 or 0, then try again.")
    return SWITCH[value]
