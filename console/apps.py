"""Registers the app with Django."""

from django.apps import AppConfig, apps
from django.contrib.auth.signals import user_logged_in
from django.db.models.signals import post_migrate


class ConsoleConfig(AppConfig):
    """The app `console`."""

    name = "console"

    def ready(self) -> None:
        from console.http_api import checks
        from console.people.accounts import make_roles
        from console.people.session_limits import begin

        checks.connect()
        user_logged_in.connect(begin)

        # Django signals this only for apps with models; the rights are those of `integration`.
        post_migrate.connect(make_roles, sender=apps.get_app_config("integration"))
