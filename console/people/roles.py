"""Rights of roles, given where the console runs: no page changes what a role may do."""

from typing import ClassVar

from django.contrib.auth.models import Group, Permission
from django.db import transaction

from console.layout.access import Right
from integration.actions import configuration
from integration.actions.configuration import Author, Facts
from integration.errors import IntegrationError


class RoleUnknownError(IntegrationError):
    """There is no role of this name."""

    code: ClassVar[str] = "ROLE_UNKNOWN"

    def __init__(self, name: str) -> None:
        known = ", ".join(Group.objects.order_by("name").values_list("name", flat=True))
        super().__init__(
            f"There is no role “{name}”, so nothing was changed.",
            next_step=f"Name one of these, with its capitals: {known}."
            if known
            else "Run `manage.py migrate`, which makes the first roles.",
        )


def give(name: str, right: Right, author: Author) -> bool:
    """Give the role this right, together with a row of audit; False where it has it already.

    Raises RoleUnknownError.
    """
    app, _, code = right.permission.partition(".")
    with transaction.atomic():
        role = Group.objects.select_for_update().filter(name=name).first()
        if role is None:
            raise RoleUnknownError(name)
        before = _facts(role)
        role.permissions.add(*Permission.objects.filter(content_type__app_label=app, codename=code))
        return configuration.record(role, before, _facts(role), author) is not None


def _facts(role: Group) -> Facts:
    codes = set(role.permissions.values_list("content_type__app_label", "codename"))
    return {"rights": [one.word for one in Right if tuple(one.permission.split(".")) in codes]}
