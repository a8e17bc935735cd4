"""What a configuration file holds: kinds of things, their names and fields, in a fixed order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import QuerySet

from crontasks.models import CronInstance
from integration.models import (
    ChannelTarget,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
    PublishChannel,
    Queue,
)


@dataclass(frozen=True)
class Kind:
    """One section: `key` names an entry, `left_out` are columns that no file speaks of.

    Where one column does not tell entries apart, `beside` is the other one, and an entry is named
    by both: "MXPO to erp".
    """

    section: str
    word: str
    model: type[models.Model]
    key: str = "name"
    beside: str = ""
    left_out: frozenset[str] = frozenset()

    @cached_property
    def columns(self) -> dict[str, "models.Field[Any, Any]"]:
        """What a file may set, the keys first."""
        found = {
            column.name: column
            for column in self.model._meta.concrete_fields
            if column.editable
            and not column.primary_key
            and not getattr(column, "auto_now", False)
            and column.name not in self.left_out
        }
        return {**{key: found.pop(key) for key in self.keys}, **found}

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that name an entry."""
        return (self.key, self.beside) if self.beside else (self.key,)

    def name_of(self, row: models.Model) -> str:
        return self.named([getattr(row, key) for key in self.keys])

    def named(self, values: Sequence[object]) -> str:
        """The name of an entry that has these values under its keys."""
        return " to ".join(map(str, values))

    def rows_named(self, values: Sequence[object]) -> QuerySet[models.Model]:
        """The stored row that has these values, as a file writes them, under its keys."""
        wanted = {
            f"{key}__{name_column(found)}" if (found := _related(column)) else key: value
            for (key, column), value in zip(self.columns.items(), values, strict=False)
        }
        return self.model._default_manager.filter(**wanted)


def _related(column: "models.Field[Any, Any]") -> type[models.Model] | None:
    found = column.related_model if isinstance(column, models.ForeignKey) else None
    return found if isinstance(found, type) else None


# Each finds what it refers to in a section before it; removed in the opposite order.
KINDS: Final = (
    Kind("providers", "provider", Provider),
    Kind("systems", "external system", ExternalSystem),
    Kind("structures", "object structure", ObjectStructure),
    Kind("services", "enterprise service", EnterpriseService, key="interface"),
    # A pause is a decision of the moment, made where the endpoint or the queue is seen.
    Kind("endpoints", "endpoint", Endpoint, left_out=frozenset({"paused_until"})),
    Kind(
        "queues",
        "queue",
        Queue,
        left_out=frozenset({"paused", "pause_reason", "paused_until"}),
    ),
    Kind("channels", "publish channel", PublishChannel),
    Kind("channel_targets", "target", ChannelTarget, key="channel", beside="system"),
    Kind("cron_instances", "cron instance", CronInstance),
)
SECTIONS: Final = tuple(kind.section for kind in KINDS)


def name_column(model: type[models.Model]) -> str:
    """By which column a file refers to a row of this model."""
    for kind in KINDS:
        if kind.model is model:
            return kind.key
    return get_user_model().USERNAME_FIELD
