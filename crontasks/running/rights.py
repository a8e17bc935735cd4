"""Whether the user that a cron task runs as may have it done, asked anew for each run."""

from collections.abc import Callable
from typing import Any, Final

from crontasks.definitions import Definition
from crontasks.errors import RunAsRefusedError
from crontasks.models import CronInstance

IsLimited = Callable[[Any], bool]
# Limits to external systems are the console's: it says at its start who has one.
_asked: Final[list[IsLimited]] = []


def limited_by(is_limited: IsLimited) -> None:
    """Choose what tells whether a user is limited to some external systems."""
    _asked[:] = [is_limited]


def check(instance: CronInstance, definition: Definition) -> None:
    """Raises RunAsRefusedError where the instance runs with the rights of a user who lacks one.

    A cron task works for all external systems: who is limited to some may have none done.
    """
    if not instance.with_rights:
        return
    user = instance.user_with_rights
    if user is None:
        raise RunAsRefusedError(user="", why="the account is gone")
    name = user.get_username()
    if not user.is_active:
        raise RunAsRefusedError(user=name, why="the account is switched off")
    missing = [one for one in definition.permissions if not user.has_perm(one)]
    if missing:
        raise RunAsRefusedError(user=name, why=f"without the permission {', '.join(missing)}")
    if any(is_limited(user) for is_limited in _asked):
        raise RunAsRefusedError(user=name, why="limited to some external systems")
