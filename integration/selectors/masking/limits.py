"""What rules are limited to, where a change would take messages out of their reach."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Model

from integration.models import EnterpriseService, MaskingRule, PublishChannel, Queue

# The field by which a rule reaches what such a row stands for, beside the row itself.
FIELDS: Final[Mapping[type[Model], str]] = {
    EnterpriseService: "structure",
    PublishChannel: "structure",
    Queue: "system",
}


def loosens(row: Model) -> bool:
    """Return whether storing a changed row would take it out of the reach of a rule."""
    model = row._meta.concrete_model
    field = FIELDS.get(model) if model is not None else None
    if model is None or field is None or row.pk is None:
        return False
    old = model._default_manager.filter(pk=row.pk).values_list(field, flat=True).first()
    return old not in {None, getattr(row, f"{field}_id")} and is_reached(field, old)


def is_reached(field: str, limit: Any) -> bool:
    """Return whether a rule that is switched on is limited to this structure or system."""
    return MaskingRule.objects.filter(enabled=True, **{field: limit}).exists()
