"""What `sluice_settings` makes of a project's settings module, and what it refuses."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, current_app
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

from config import settings as ours
from crontasks.celery_app import app
from crontasks.dispatch import resident
from integration.handlers import discovery
from sluice import project
from sluice.database import SERVER_OPTIONS, place_of
from sluice.env import SettingsError
from sluice.settings import sluice_settings

pytestmark = pytest.mark.fast

VARIABLES = {
    "SLUICE_CELERY_BROKER_URL": "redis://valkey:6379/1",
    "SLUICE_ENVIRONMENT": "staging",
    "SLUICE_ENCRYPTION_KEYS": "c2x1aWNlLXRlc3RzLW9ubHktMzItYnl0ZXMtbG9uZyE=",
}
DJANGO_TEMPLATES = "django.template.backends.django.DjangoTemplates"


def a_module(**names: Any) -> dict[str, Any]:
    """The names of a settings module as `startproject` makes it, with Sluice's apps in it."""
    return {
        "INSTALLED_APPS": ["orders", "integration", "crontasks", "console"],
        "MIDDLEWARE": ["django.middleware.common.CommonMiddleware"],
        "DATABASES": {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}},
        "TEMPLATES": [{"BACKEND": DJANGO_TEMPLATES, "APP_DIRS": True}],
        **names,
    }


def completed(**names: Any) -> dict[str, Any]:
    module = a_module(**names)
    sluice_settings(module, VARIABLES)
    return module


def refusals(**names: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        completed(**names)
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("apps_there", "said", "used"),
    [
        (["allauth.account"], {"LOGIN_URL": "/accounts/login/"}, "/accounts/login/"),
        (["allauth.account.apps.AccountConfig"], {"LOGIN_URL": "/in/"}, "/in/"),
        (["allauth.account"], {}, "/accounts/login/"),
        (["allauth.account"], {"LOGIN_URL": "account_login"}, ""),
        (["allauth.account"], {"LOGIN_URL": "/in/", "SLUICE_LOGIN_URL": "/sso/"}, "/sso/"),
        ([], {"LOGIN_URL": "/accounts/login/"}, ""),
    ],
)
def test_a_project_with_allauth_keeps_its_login(
    apps_there: list[str], said: dict[str, str], used: str
) -> None:
    installed = [*a_module()["INSTALLED_APPS"], *apps_there]
    assert completed(INSTALLED_APPS=installed, **said)["SLUICE_LOGIN_URL"] == used


def test_only_its_own_names_and_what_its_pages_need_are_added() -> None:
    before, module = a_module(), completed()
    changed = {name for name in module if module.get(name) != before.get(name)}
    theirs = {name for name in changed if name.isupper() and not name.startswith("SLUICE_")}
    assert theirs == {
        "INSTALLED_APPS",
        "DATABASES",
        "TEMPLATES",
        "CRISPY_TEMPLATE_PACK",
        "CRISPY_ALLOWED_TEMPLATE_PACKS",
    }
    assert (module["SLUICE_IS_GUEST"], module["SLUICE_APP"]) == (True, "sluice")


def test_this_checkouts_settings_are_made_by_the_same_call() -> None:
    named = {name for name in completed() if name.startswith("SLUICE_")}
    assert named <= set(dir(ours))
    assert (settings.SLUICE_IS_GUEST, settings.SLUICE_APP) == (False, "config")
    assert app.conf.broker_transport_options == settings.SLUICE_CELERY_BROKER_TRANSPORT_OPTIONS
    assert app.conf.task_routes == settings.SLUICE_CELERY_TASK_ROUTES
    assert current_app.main == "sluice"


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("SLUICE_ENVIRONMENT", "production", "production"),
        ("SLUICE_INTEGRATIONS", ["plant", "office"], ["plant", "office"]),
        ("SLUICE_LEASE_SECONDS", 20, 20.0),
        ("SLUICE_SPARK_UI", True, True),
        ("SLUICE_SPARK_CONF", {"spark.a": "b"}, {"spark.a": "b"}),
        ("SLUICE_FILES_ROOT", None, None),
        ("SLUICE_DATABASE", "default", "default"),
        ("CRISPY_TEMPLATE_PACK", "tailwind", "tailwind"),
    ],
)
def test_what_the_module_says_itself_stands(name: str, written: Any, read: Any) -> None:
    assert completed(**{name: written})[name] == read


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"SLUICE_INTEGRATIONS": ["orders"]},
            'Add "feed" to SLUICE_INTEGRATIONS in shop.settings.',
        ),
        ({}, "Set SLUICE_INTEGRATIONS=orders,feed for every process."),
    ],
    ids=["the module", "the environment"],
)
def test_a_started_integration_is_installed_where_the_setting_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], told: str
) -> None:
    module = a_module(**said)
    sluice_settings(module, {**VARIABLES, "SLUICE_INTEGRATIONS": "orders"})
    monkeypatch.setitem(sys.modules, "shop.settings", SimpleNamespace(**module))
    out = io.StringIO()
    here = {"SETTINGS_MODULE": "shop.settings", "SLUICE_IS_GUEST": True}
    with override_settings(SLUICE_INTEGRATIONS=["orders"], **here):
        call_command("startintegration", "feed", directory=str(tmp_path), stdout=out)
    assert told in out.getvalue()


def test_a_module_that_is_loaded_once_more_reads_the_environment_once_more() -> None:
    module = completed(SLUICE_DEPLOYMENT="mine")
    module.update(a_module(SLUICE_DEPLOYMENT="mine"))
    elsewhere = {"SLUICE_ENVIRONMENT": "production", "SLUICE_DEPLOYMENT": "theirs"}
    sluice_settings(module, {**VARIABLES, **elsewhere})
    assert (module["SLUICE_ENVIRONMENT"], module["SLUICE_DEPLOYMENT"]) == ("production", "mine")


def test_and_is_checked_as_in_the_environment() -> None:
    assert refusals(SLUICE_LEASE_SECONDS="soon") == [
        "SLUICE_LEASE_SECONDS is 'soon'; write a number of seconds above 0"
    ]


def test_apps_that_are_missing_are_added_once() -> None:
    before = ["people.apps.PeopleConfig", *project.APPS, "django_filters", "plant.apps.PlantConfig"]
    module = completed(INSTALLED_APPS=before, SLUICE_INTEGRATIONS="plant, office")
    added = module["INSTALLED_APPS"][len(before) :]
    assert added[0] == "office"
    assert set(added[1:]) == set(project.COMPANIONS) - {"django_filters"}
    assert len(set(module["INSTALLED_APPS"])) == len(module["INSTALLED_APPS"])


def test_a_sessions_own_options_come_after_those_of_the_engine() -> None:
    said = {"options": "-c jit=on", "connect_timeout": 9, "sslmode": "require"}
    database = {"ENGINE": "django.db.backends.postgresql", "OPTIONS": said}
    options = completed(DATABASES={"default": database})["DATABASES"]["default"]["OPTIONS"]
    assert options["options"] == f"{SERVER_OPTIONS} -c jit=on"
    assert (options["connect_timeout"], options["sslmode"]) == (9, "require")
    assert "server_side_binding" not in options


def test_what_an_operator_says_of_one_command_counts_unless_the_engine_needs_it_otherwise() -> None:
    module = a_module()
    sluice_settings(module, {**VARIABLES, "PGOPTIONS": "-c lock_timeout=5s -c timezone=CET"})
    options = module["DATABASES"]["default"]["OPTIONS"]["options"]
    assert options == f"-c lock_timeout=5s -c timezone=CET {SERVER_OPTIONS}"


def test_the_engines_own_sessions_get_there_as_the_projects_do() -> None:
    options = {"sslmode": "verify-full", "sslrootcert": "ca.pem", "pool": True, "options": "-c a=b"}
    assert place_of({"NAME": "shop", "HOST": "db", "PORT": "", "OPTIONS": options}) == {
        "dbname": "shop",
        "user": None,
        "password": None,
        "host": "db",
        "port": None,
        "sslmode": "verify-full",
        "sslrootcert": "ca.pem",
    }


def test_the_frame_of_pages_is_added_to_djangos_engines_alone() -> None:
    jinja = {"BACKEND": "django.template.backends.jinja2.Jinja2", "OPTIONS": {"x": 1}}
    module = completed(TEMPLATES=[jinja, {"BACKEND": DJANGO_TEMPLATES}])
    assert module["TEMPLATES"][0] == jinja
    assert module["TEMPLATES"][1]["OPTIONS"] == {"context_processors": ["console.mounting.frame"]}


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({"INSTALLED_APPS": ["integration", "console"]}, "INSTALLED_APPS lacks crontasks"),
        ({"USE_TZ": False}, "set USE_TZ = True"),
        ({"USE_THOUSAND_SEPARATOR": True}, "USE_THOUSAND_SEPARATOR is on"),
        ({"DATABASES": {}}, "there is no DATABASES['default'] yet"),
        ({"TEMPLATES": []}, "there are no TEMPLATES yet"),
        (
            {"DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3"}}},
            "in PostgreSQL; it is django.db.backends.sqlite3",
        ),
        ({"CELERY_BROKER_URL": "redis://:secret@valkey:6379/1"}, "each would take the other's"),
    ],
)
def test_what_would_be_in_its_way_is_refused_in_a_sentence(
    names: dict[str, Any], sentence: str
) -> None:
    [mistake] = refusals(**names)
    assert sentence in mistake
    assert "secret" not in mistake


@pytest.mark.parametrize("url", ["redis://valkey:6379/2", "redis://other:6379/1", "amqp://valkey"])
def test_another_broker_or_another_database_of_it_is_fine(url: str) -> None:
    assert completed(CELERY_BROKER_URL=url)["CELERY_BROKER_URL"] == url


def test_only_apps_that_are_named_are_searched_for_handlers() -> None:
    every = {one.name for one in apps.get_app_configs()}
    assert {"sample", "payments", "django.contrib.auth"} < every
    with override_settings(SLUICE_INTEGRATIONS=["sample", "payments.apps.PaymentsConfig", "world"]):
        assert {*discovery._packages()} == {"sample", "payments", "tests.support.world"}
    with override_settings(SLUICE_INTEGRATIONS=[]):
        assert not [*discovery._packages()]


def test_a_worker_of_another_celery_app_in_the_project_is_left_alone() -> None:
    theirs = Celery("shop", set_as_current=False, fixups=[])
    worker = SimpleNamespace(app=theirs, options={}, hostname="w@host")
    resident.before_fork(worker)
    resident.after_fork()
    resident.begin(worker)
    resident.end()
    assert worker.options == {}
    assert not theirs.steps["consumer"]
    assert not resident._residents
