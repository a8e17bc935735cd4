"""The groups an installation begins with, so that nobody has to put rights together."""

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission

from console.layout.access import ROLES


def make_roles(**_: object) -> None:
    """Make the groups that are missing; existing ones stay as the administrator left them."""
    # The permissions of `integration` come after its migrations; they may not be there yet.
    create_permissions(installed.get_app_config("integration"), verbosity=0)
    for name, rights in ROLES.items():
        group, is_new = Group.objects.get_or_create(name=name)
        if is_new:
            codes = [right.permission.split(".")[1] for right in rights]
            group.permissions.set(
                Permission.objects.filter(content_type__app_label="integration", codename__in=codes)
            )
