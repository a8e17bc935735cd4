"""The contents of a configuration file: sections with their names and fields, in fixed order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import QuerySet

from crontasks.models import CronInstance, NoticeRecipient, NoticeRule
from integration.actions.configuration import settable
from integration.models import (
    ChannelTarget,
    ConnectionFactory,
    Endpoint,
    EnterpriseService,
    EventSubscription,
    ExternalSystem,
    MaskingRule,
    ObjectStructure,
    Provider,
    PublishChannel,
    Queue,
)


@dataclass(frozen=True)
class Section:
    """The entries of one model: `keys` name one, `left_out` are columns that no file speaks of.

    Where one column does not tell entries apart, an entry is named by two: "MXPO to erp".
    """

    name: str
    model: type[models.Model]
    keys: tuple[str, ...] = ("name",)
    left_out: frozenset[str] = frozenset()

    @property
    def word(self) -> str:
        return str(self.model._meta.verbose_name)

    @property
    def rows(self) -> QuerySet[Any]:
        """Every stored row, with what it refers to."""
        related = [name for name, column in self.columns.items() if column.is_relation]
        every = self.model._default_manager.all()
        return every.select_related(*related) if related else every

    @cached_property
    def columns(self) -> dict[str, "models.Field[Any, Any]"]:
        """The columns that a file may set, the keys first."""
        columns = {column.name: column for column in settable(self.model)}
        for name in self.left_out:
            del columns[name]
        return {**{key: columns.pop(key) for key in self.keys}, **columns}

    def name_of(self, row: models.Model) -> str:
        return self.named([getattr(row, key) for key in self.keys])

    def named(self, values: Sequence[object]) -> str:
        """The name of an entry that has these values under its keys."""
        return " to ".join(map(str, values))

    def row_named(self, values: Sequence[object]) -> Any:
        """The stored row that has these values, as a file writes them, under its keys."""
        paths = [
            f"{key}__{name_column(column.related_model)}" if column.is_relation else key
            for key, column in self.columns.items()
        ]
        return self.rows.filter(**dict(zip(paths, values, strict=False))).first()


# Each finds what it refers to in a section before it; removed in the opposite order.
SECTIONS: Final = (
    Section("providers", Provider),
    Section("connections", ConnectionFactory),
    Section("systems", ExternalSystem),
    Section("structures", ObjectStructure),
    Section("services", EnterpriseService, keys=("interface",)),
    # A pause is a decision of the moment, made where the endpoint or the queue is seen.
    Section("endpoints", Endpoint, left_out=frozenset({"paused_until"})),
    Section("queues", Queue, left_out=frozenset({"paused", "pause_reason", "paused_until"})),
    Section("channels", PublishChannel),
    Section("channel_targets", ChannelTarget, keys=("channel", "system")),
    Section("cron_instances", CronInstance),
    Section("notice_recipients", NoticeRecipient),
    Section("notice_rules", NoticeRule),
    Section("masking_rules", MaskingRule),
    Section("event_subscriptions", EventSubscription),
)
NAMES: Final = tuple(section.name for section in SECTIONS)


def name_column(model: object) -> str:
    """Return the column by which a file refers to a row of this model."""
    columns = (section.keys[0] for section in SECTIONS if section.model is model)
    return next(columns, get_user_model().USERNAME_FIELD)
