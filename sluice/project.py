"""The project that Sluice is installed into: what it has to have, and what would be in the way."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import global_settings

APPS: Final = ("integration", "crontasks", "console")
# Packages of Sluice by their names on Python's path.
PACKAGES: Final = (*APPS, "spark_jobs", "sluice_cli")
# What its pages and its schedules are made with; added where the project has them not.
COMPANIONS: Final = (
    "django_celery_beat",
    "crispy_forms",
    "crispy_bootstrap5",
    "django_filters",
    "django_tables2",
    "django.contrib.humanize",
    "django.contrib.postgres",
)
OTHER_DATABASES: Final = frozenset({"sqlite3", "mysql", "oracle"})
ROOT: Final = Path(__file__).resolve().parents[1]


def apps(installed: Sequence[str], integrations: Iterable[str]) -> list[str]:
    """INSTALLED_APPS with what is missing: the apps with handlers, and those that Sluice uses."""
    missing = [one for one in (*integrations, *COMPANIONS) if not _is_installed(one, installed)]
    return [*installed, *missing]


def login_of(project: Mapping[str, Any]) -> str:
    """The login page of a project that has django-allauth, if it is said by its path; else empty.

    Such a project has thought about how people get in.
    """
    login = str(project.get("LOGIN_URL", global_settings.LOGIN_URL))
    is_there = _is_installed("allauth.account", project.get("INSTALLED_APPS", ()))
    return login if is_there and "/" in login else ""


def mistakes(project: Mapping[str, Any], broker_url: str) -> list[str]:
    """Why Sluice cannot be part of these settings, in sentences; empty if it can."""
    found = [
        *_of_the_machine(),
        *_of_packages(),
        *_of_apps(project.get("INSTALLED_APPS", ())),
        *_of_databases(project.get("DATABASES", {})),
        *_of_brokers(project, broker_url),
    ]
    if project.get("USE_TZ", True) is not True:
        found.append("USE_TZ is off, and Sluice reckons with aware times only; set USE_TZ = True")
    if project.get("USE_THOUSAND_SEPARATOR"):
        found.append(
            "USE_THOUSAND_SEPARATOR is on, and numbers in the console's forms and links would be "
            "written with it; leave it off"
        )
    if not project.get("TEMPLATES"):
        found.append("there are no TEMPLATES yet; call sluice_settings on the module's last line")
    return found


def _of_the_machine() -> Iterator[str]:
    if os.name != "posix":
        yield "Sluice runs on Linux; on Windows, use WSL 2 or a container"


def _of_packages() -> Iterator[str]:
    """Packages that are found first under a name of Sluice's own."""
    for name in PACKAGES:
        spec = find_spec(name)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        if places and Path(places[0]).resolve().parent != ROOT:
            yield (
                f"the package {name} in {Path(places[0]).parent} hides Sluice's own of this name; "
                "rename it, or put it inside another package"
            )


def _of_apps(installed: Sequence[str]) -> Iterator[str]:
    missing = [name for name in APPS if not _is_installed(name, installed)]
    if missing:
        yield f"INSTALLED_APPS lacks {', '.join(missing)}"
    for entry in installed:
        name, _, _ = entry.partition(".apps.")
        label = name.rpartition(".")[2]
        if name not in APPS and label in APPS and _label_of(entry) == label:
            yield (
                f"the app {entry} has the label {label}, which is Sluice's; give it another one "
                "(label in its AppConfig)"
            )


def _label_of(entry: str) -> str:
    """The app's label; it may have been given another one than the last part of its name."""
    return str(AppConfig.create(entry).label)


def _of_databases(databases: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    engine = str(databases.get("default", {}).get("ENGINE", ""))
    if not engine:
        yield "there is no DATABASES['default'] yet; call sluice_settings on the module's last line"
    elif engine.rpartition(".")[2] in OTHER_DATABASES:
        yield f"Sluice keeps its tables in DATABASES['default'], in PostgreSQL; it is {engine}"


def _of_brokers(project: Mapping[str, Any], broker_url: str) -> Iterator[str]:
    """Two Celery apps at one broker would take each other's tasks from a queue of one name."""
    others = [project.get(name) for name in ("CELERY_BROKER_URL", "BROKER_URL")]
    if broker_url and any(_place(str(one)) == _place(broker_url) for one in others if one):
        yield (
            "SLUICE_CELERY_BROKER_URL is also the broker of the project's own Celery app, and each "
            "would take the other's tasks; write another database of it, such as redis://…/1"
        )


def _place(url: str) -> tuple[str, str]:
    """Host and port, and the number of the database, which is 0 where it is not written."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2], parts.path.strip("/") or "0"


def _is_installed(name: str, installed: Iterable[str]) -> bool:
    return any(entry == name or entry.startswith(f"{name}.apps.") for entry in installed)
