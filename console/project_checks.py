"""What Sluice needs of the project it is installed into, as system checks of Django."""

from collections.abc import Iterator
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import PermissionsMixin
from django.core import checks
from django.db import connections, router

OURS: Final = ("integration", "crontasks", "console")


def project_fits(**_: Any) -> list[checks.CheckMessage]:
    """Report what the settings alone did not tell."""
    return [*_people(), *_tables()]


def _people() -> Iterator[checks.CheckMessage]:
    model: type[Any] = get_user_model()
    if not issubclass(model, PermissionsMixin):
        yield checks.Error(
            f"Sluice's rights are permissions and groups of Django, and {model.__name__} has none.",
            hint="Derive the user model from AbstractUser, or from PermissionsMixin too.",
            id="sluice.E001",
        )


def _tables() -> Iterator[checks.CheckMessage]:
    ours = settings.SLUICE_DATABASE
    if connections[ours].vendor != "postgresql":
        yield checks.Error(
            f"Sluice keeps its tables in PostgreSQL, and DATABASES[{ours!r}] is another database.",
            id="sluice.E002",
        )
    models = [model for app in OURS for model in apps.get_app_config(app).get_models()]
    astray = [
        model.__name__
        for model in (*models, get_user_model())
        if router.db_for_write(model) != ours or not router.allow_migrate_model(ours, model)
    ]
    if astray:
        yield checks.Error(
            f"A database router leads tables away from DATABASES[{ours!r}], where the engine "
            f"writes by itself: {', '.join(astray[:5])}.",
            hint="Let its methods return None for integration, crontasks, console and the users.",
            id="sluice.E003",
        )


def connect() -> None:
    """Have Django ask."""
    checks.register(project_fits, checks.Tags.models)
