"""Registers the app with Django."""

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db.models.signals import post_migrate


class ConsoleConfig(AppConfig):
    """The app `console`."""

    name = "console"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from console import project_checks
        from console.http_api import checks
        from console.layout.access import is_limited
        from console.people.accounts import make_roles
        from console.people.session_limits import begin, end
        from crontasks.running import rights

        checks.connect()
        rights.limited_by(is_limited)
        project_checks.connect()
        if not settings.SLUICE_IS_GUEST:
            # How long a session lasts is the project's to say.
            user_logged_in.connect(begin)
            user_logged_out.connect(end)

        # Django signals this only for apps with models; the rights are those of `integration`.
        post_migrate.connect(make_roles, sender=apps.get_app_config("integration"))
