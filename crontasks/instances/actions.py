"""Actions of a person on a cron task's instance: run it now, pause it, remove it."""

from collections.abc import Mapping
from typing import Final

from django.db import transaction

from crontasks import parameters, ticks
from crontasks.definitions import registry
from crontasks.errors import InstanceNeededError, RunUnderWayError
from crontasks.models import CronInstance
from crontasks.outcome import RunState
from crontasks.running import history
from crontasks.ticks import RunRequest
from integration.actions import configuration, queues
from integration.actions.configuration import Author
from integration.sealed import masked

CONSUMERS: Final = frozenset({"queue_consumer", "error_queue_consumer"})


def run_now(instance_id: int, author: Author, *, given: Mapping[str, object] | None = None) -> None:
    """Send a run to the workers, besides the schedule, and note who asked.

    `given` are parameters for this one run; what they leave out has its default. Asking twice is
    harmless: a queue has one standing request, other tasks keep their overlap rule. Raises
    CronInstance.DoesNotExist, UnknownCronTaskError, BadParametersError, RunUnderWayError,
    WorkersUnreachableError.
    """
    instance = CronInstance.objects.get(pk=instance_id)
    kind = registry.named(instance.task).task.parameters
    if given is not None:
        parameters.read(kind, given)
        given = parameters.sealed_of(kind, given)
    _refuse_second(instance)
    ticks.run_now(instance, RunRequest(author.actor, given))
    if instance.queue_id is not None:
        effect = "A run was requested."
        queues.note(instance.queue_id, author.actor, "run now", reason=author.reason, effect=effect)
        return
    facts = {"run": "asked for"} | ({} if given is None else {"parameters": masked(given)})
    configuration.record(instance, {}, facts, author)


def switch(instance_id: int, author: Author, *, active: bool) -> bool:
    """Let the schedule rest, or go on; False if it did so already.

    What runs goes on to its end. A schedule that goes on is counted from now: nothing that was
    missed is made up for. Raises CronInstance.DoesNotExist.
    """
    with transaction.atomic():
        instance = CronInstance.objects.select_for_update().get(pk=instance_id)
        instance.active = active
        return configuration.save(instance, author) is not None


def remove(instance_id: int, author: Author) -> None:
    """Delete an instance and its runs.

    Raises InstanceNeededError for the consumer of a queue, CronInstance.DoesNotExist.
    """
    instance = CronInstance.objects.select_related("queue").get(pk=instance_id)
    if instance.queue is not None:
        raise InstanceNeededError(queue=instance.queue.name)
    configuration.delete(instance, author)


def _refuse_second(instance: CronInstance) -> None:
    if instance.overlap == CronInstance.Overlap.ALLOW:
        return
    # One whose process was killed keeps nobody from another.
    history.settle_lost(instance.pk)
    under_way = instance.runs.filter(state=RunState.RUNNING).first()
    if under_way is not None:
        raise RunUnderWayError(name=instance.name, since=under_way.started_at)
