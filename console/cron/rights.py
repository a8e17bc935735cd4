"""What a person may have cron tasks do: asked by forms, the operator API and configuration files.

Whose rights a run has, and which its task needs, is known to instance and definition; what a run
lacks of them is found anew when it begins (`crontasks.running.rights`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.bulk.asking import schedule_hindrance
from console.layout.access import may_act_for
from console.setup.pages import storing_hindrance
from crontasks import parameters
from crontasks.definitions import Definition, registry
from crontasks.models import CronInstance
from integration.models import Queue

TOO_MUCH: Final = (
    "It would run with the rights of {}, who may do what you may not by this login, or whose "
    "account is switched off. Choose another user, or ask somebody who has all of these rights."
)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges for the person who makes this request, by this very login.

    A hindrance is a sentence why they may not; it is empty where they may.
    """

    request: HttpRequest

    def hindrance_of_user(self, user: User | None) -> str:
        """The hindrance to runs with the rights of this user; None is nobody."""
        if user is None or may_act_for(self.request.user, user):
            return ""
        return TOO_MUCH.format(user.get_username())

    def hindrance_of_parameters(self, definition: Definition, given: Mapping[str, object]) -> str:
        """The hindrance to runs with these parameters.

        Raises BadParametersError, and BulkError for a job request that cannot be read.
        """
        asks = asks_for_bulk_jobs(definition)
        if not (asks or _makes_queues(definition)):
            return ""
        # With what is left out, because it is as usual.
        said: Any = parameters.read(definition.task.parameters, given)
        if asks:
            return schedule_hindrance(self.request, said.job, said.job_request)
        return storing_hindrance(self.request, [Queue()]) if said.most_queues else ""

    def require(self, instance: CronInstance, given: Mapping[str, object] | None) -> None:
        """Let nobody pass who may not have it run so, stored or for once.

        `given` are its parameters if they are new. Raises PermissionDenied, BadParametersError,
        and BulkError for a job request that cannot be read.
        """
        why = self.hindrance_of_user(instance.user_with_rights)
        definition = registry.get(instance.task)
        if not why and definition is not None and given is not None:
            why = self.hindrance_of_parameters(definition, given)
        if why:
            raise PermissionDenied(why)


def asks_for_bulk_jobs(definition: Definition) -> bool:
    """Return True when the parameters of the cron task describe a bulk job."""
    return _has_parameters(definition, "job", "job_request")


def _makes_queues(definition: Definition) -> bool:
    """Return True when its runs make queues of topics that fit a pattern."""
    return _has_parameters(definition, "pattern", "most_queues")


def _has_parameters(definition: Definition, *names: str) -> bool:
    known = {one.name for one in parameters.describe(definition.task.parameters)}
    return known.issuperset(names)
