"""A cron instance as a configuration file would leave it, before anything is stored."""

from collections.abc import Mapping

from django.contrib.auth import get_user_model

from crontasks.models import CronInstance


def planned_instance(name: str, said: Mapping[str, object]) -> CronInstance:
    """Return the instance of this name as it would be if its fields were as said; it is not saved.

    `said` are fields as a configuration file writes them; the others are as they are stored. Of
    them only those are set that decide about rights: task, parameters, user, with_rights.
    """
    stored = CronInstance.objects.select_related("run_as").filter(name=name).first()
    instance = CronInstance(name=name) if stored is None else stored
    if "run_as" in said:
        model = get_user_model()
        users = model._default_manager.filter(**{model.USERNAME_FIELD: said["run_as"]})
        instance.run_as = users.first()
    given = said.get("parameters", instance.parameters)
    instance.parameters = dict(given) if isinstance(given, Mapping) else {}
    instance.task = str(said.get("task", instance.task))
    instance.with_rights = bool(said.get("with_rights", instance.with_rights))
    return instance
