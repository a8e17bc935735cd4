"""Whether a person may have a task do what its parameters say."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from console.bulk.rights import schedule_hindrance
from console.cron.forms import Hindrance
from crontasks import parameters
from crontasks.definitions import Definition


def asks_for_bulk_jobs(definition: Definition) -> bool:
    """Whether the parameters of the task say what a bulk job is to do."""
    known = {one.name for one in parameters.describe(definition.task.parameters)}
    return known.issuperset({"job", "job_request"})


def hindrance_for(request: HttpRequest) -> Hindrance:
    """Judges parameters for the person who gives them."""

    def hindrance(definition: Definition, given: Mapping[str, object]) -> str:
        if not asks_for_bulk_jobs(definition):
            return ""
        # With what is left out, because it is as usual.
        said: Any = parameters.read(definition.task.parameters, given)
        return schedule_hindrance(request, said.job, said.job_request)

    return hindrance
