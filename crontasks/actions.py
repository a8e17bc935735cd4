"""What a person may ask of a cron task: to run it now."""

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from kombu.exceptions import OperationalError

from crontasks import ticks
from crontasks.errors import WorkersUnreachableError
from crontasks.models import CronInstance


def run_now(instance_id: int, *, actor: str) -> None:
    """Send a run to the workers, besides the schedule, and note who asked.

    Asking twice is harmless: a queue has one standing request, other tasks keep their overlap
    rule. Raises CronInstance.DoesNotExist, WorkersUnreachableError.
    """
    instance = CronInstance.objects.get(pk=instance_id)
    try:
        ticks.run_now(instance_id)
    except OperationalError as failure:
        raise WorkersUnreachableError from failure
    person = get_user_model().objects.filter(username=actor).first()
    if person is not None:
        LogEntry.objects.create(
            user_id=person.pk,
            content_type=ContentType.objects.get_for_model(CronInstance),
            object_id=str(instance_id),
            object_repr=str(instance),
            action_flag=CHANGE,
            change_message="Run now.",
        )
