"""The configuration as a file over HTTP: read it, plan a file, apply one."""

from contextlib import suppress
from typing import Any, Final, Literal, NoReturn

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from console.api.errors import FileOvertakenError
from console.api.routes import Reason, acting, operation
from console.cron.rights import Judge
from console.layout.access import Right, require, scope_of
from console.layout.answers import actor_of
from crontasks.configfile import applying
from crontasks.configfile.applying import Step
from crontasks.configfile.facts import export
from crontasks.configfile.planned import planned_instance
from crontasks.configfile.secrets import SecretReferenceError
from crontasks.errors import BadParametersError
from crontasks.models import CronInstance
from integration.actions.configuration import Author
from integration.models import MaskingRule
from integration.selectors.masking.limits import step_unmasks

router: Final = Router(tags=["configuration"])
YAML: Final = "application/yaml"
FILE: Final = {"required": True, "content": {YAML: {"schema": {"type": "object"}}}}
LIMITED: Final = (
    "Your account is limited to some external systems, and the configuration is shared by all of "
    "them."
)
NO_VARIABLES: Final = (
    "Over HTTP no variable of the server is read: write “kept” and set the secret in the console, "
    "or use manage.py config."
)


class How(Schema):
    """How a file is meant."""

    prune: bool = Field(default=False, description="Also remove what its sections do not name.")
    reason: Reason = ""


class FieldChange(Schema):
    """One field, as the file shows it before and after.

    `is_default`: it is one of a new thing, the file leaves it out, and it has its default.
    """

    field: str
    before: Any
    after: Any
    is_default: bool


class ConfigStep(Schema):
    """One thing that is created, changed or removed."""

    action: Literal["create", "change", "remove"]
    word: str
    name: str
    differences: list[FieldChange]


class ConfigSteps(Schema):
    """Everything that a file does; nothing where it is as the file says."""

    steps: list[ConfigStep]


@operation(router, "GET", "/configuration", Right.VIEW, Right.CONFIGURE, answer=Any)
def export_configuration(request: HttpRequest) -> HttpResponse:
    """Everything that people set up, as YAML; secrets as “kept”."""
    _refuse_limited(request)
    return HttpResponse(export(), content_type=f"{YAML}; charset=utf-8")


@operation(
    router,
    "POST",
    "/configuration/plans",
    *(Right.VIEW, Right.CONFIGURE),
    answer=ConfigSteps,
    requestBody=FILE,
)
def plan_configuration(request: HttpRequest, how: Query[How]) -> ConfigSteps:
    """What applying a file would do; nothing is changed."""
    _refuse_limited(request)
    return _told(_plan(request, how))


@acting(
    router,
    "PUT",
    "/configuration",
    *(Right.VIEW, Right.CONFIGURE),
    answer=ConfigSteps,
    requestBody=FILE,
)
def apply_configuration(request: HttpRequest, how: Query[How]) -> ConfigSteps:
    """Do what the plan shows, in one transaction."""
    _refuse_limited(request)
    with transaction.atomic():
        planned = _plan(request, how)
        _refuse_unmasking(request, planned)
        _refuse_cron_tasks(request, planned)
        steps = applying.apply(request.body, **_given(request, how))
        # Rights were judged by the plan: what somebody changed since may make more of the file.
        if steps != planned:
            raise FileOvertakenError
    return _told(steps)


def _plan(request: HttpRequest, how: How) -> list[Step]:
    """Raises ConfigFileError."""
    return applying.plan(request.body, **_given(request, how))


def _given(request: HttpRequest, how: How) -> dict[str, Any]:
    author = Author(actor_of(request), how.reason)
    return {"lookup": _no_variable, "author": author, "prune": how.prune}


def _told(steps: list[Step]) -> ConfigSteps:
    return ConfigSteps(
        steps=[ConfigStep.model_validate(step, from_attributes=True) for step in steps]
    )


def _refuse_unmasking(request: HttpRequest, steps: list[Step]) -> None:
    """What hides values is loosened by those alone who may see them. Raises PermissionDenied."""
    word = str(MaskingRule._meta.verbose_name)
    is_rule = any(step.word == word and step.action != "create" for step in steps)
    if is_rule or any(_unmasks(step) for step in steps):
        require(request.user, Right.REVEAL)


def _unmasks(step: Step) -> bool:
    """Return whether a step takes something out of the reach of a rule."""
    before = {one.field: one.before for one in step.differences}
    after = {one.field: one.after for one in step.differences}
    return step_unmasks(step.action, step.word, step.name, before, after)


def _refuse_cron_tasks(request: HttpRequest, steps: list[Step]) -> None:
    """Let cron tasks get only rights and jobs that this person has. Raises PermissionDenied."""
    word, judge = str(CronInstance._meta.verbose_name), Judge(request)
    for step in steps:
        if step.word != word or step.action == "remove":
            continue
        said = {one.field: one.after for one in step.differences}
        instance = planned_instance(step.name, said)
        is_new = not said.keys().isdisjoint({"task", "parameters"})
        # What cannot be read is told by its lines when the file is applied.
        with suppress(BadParametersError):
            judge.require(instance, instance.parameters if is_new else None)


def _no_variable(_: str) -> NoReturn:
    raise SecretReferenceError(NO_VARIABLES)


def _refuse_limited(request: HttpRequest) -> None:
    if not scope_of(request.user).is_whole:
        raise PermissionDenied(LIMITED)
