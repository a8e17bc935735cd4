"""What a configuration file holds: kinds of things, their names and fields, in a fixed order."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import models

from crontasks.models import CronInstance
from integration.models import (
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
    Queue,
)


@dataclass(frozen=True)
class Kind:
    """One section: `key` names an entry, `left_out` are columns that no file speaks of."""

    section: str
    word: str
    model: type[models.Model]
    key: str = "name"
    left_out: frozenset[str] = frozenset()

    @cached_property
    def columns(self) -> dict[str, "models.Field[Any, Any]"]:
        """What a file may set, the key first."""
        found = {
            column.name: column
            for column in self.model._meta.concrete_fields
            if column.editable
            and not column.primary_key
            and not getattr(column, "auto_now", False)
            and column.name not in self.left_out
        }
        return {self.key: found.pop(self.key), **found}


# Each finds what it refers to in a section before it; removed in the opposite order.
KINDS: Final = (
    Kind("providers", "provider", Provider),
    Kind("systems", "external system", ExternalSystem),
    Kind("structures", "object structure", ObjectStructure),
    Kind("services", "enterprise service", EnterpriseService, key="interface"),
    Kind("endpoints", "endpoint", Endpoint),
    # A pause is a decision of the moment, made where the queue is seen.
    Kind("queues", "queue", Queue, left_out=frozenset({"paused", "pause_reason"})),
    Kind("cron_instances", "cron instance", CronInstance),
)
SECTIONS: Final = tuple(kind.section for kind in KINDS)


def name_column(model: type[models.Model]) -> str:
    """By which column a file refers to a row of this model."""
    for kind in KINDS:
        if kind.model is model:
            return kind.key
    return get_user_model().USERNAME_FIELD
