"""The masking rules of an export, as its job takes them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from crontasks.bulk.errors import BulkError
from integration.masking.mask import Mask, Rule, mask_of
from integration.models import ObjectStructure, Queue
from integration.selectors.masking.errors import MaskedSourceError
from integration.selectors.masking.rules import masks
from integration.selectors.tracking.masked import hidden_columns
from spark_jobs.exports.parameters import What

TELLING: Final = "Which rows hold a value would tell what masking rules hide of them."
NEXT_STEP: Final = "Choose by something else, or have somebody ask for it who may reveal."


def masking_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The rules and the hidden fields of an export, nothing where there are none.

    Raises BulkError as `refuse_choosing` does.
    """
    rules, hidden = rules_of(parameters)
    if not rules:
        return {}
    _refuse_chosen(parameters, rules, hidden)
    hiding = [{"part": r.part.value, "path": r.path, "style": r.style.value} for r in sorted(rules)]
    return {"masking": hiding, "hidden": hidden}


def rules_of(parameters: Mapping[str, Any]) -> tuple[frozenset[Rule], list[str]]:
    """The rules for what an export reads now, and the fields that may hold what they hide."""
    known = masks()
    if parameters["what"] == What.DOCUMENTS:
        rules = known.fitting_structure(parameters["structure"])
        return rules, _keys(mask_of(rules), parameters["structure"]) if rules else []
    names = [parameters["service"]] if parameters.get("service") else []
    rules = known.fitting(_places(parameters.get("queues")), names)
    return rules, hidden_columns(mask_of(rules), names) if rules else []


def _places(queues: Iterable[int] | None) -> list[tuple[int | None, int | None]]:
    """Queues with their systems; for all queues, also those that were removed, any."""
    if queues is None:
        return [(None, None)]
    return list(Queue.objects.filter(pk__in=list(queues)).values_list("pk", "system"))


def _keys(mask: Mask, structure: int) -> list[str]:
    paths = ObjectStructure.objects.filter(pk=structure).values_list("key_paths", flat=True).first()
    return ["key"] if any(mask.covers(str(path)) for path in paths or ()) else []


def refuse_choosing(parameters: Mapping[str, Any]) -> None:
    """Refuse an export that is chosen by a value that is masked. Raises BulkError MASKED_SOURCE."""
    _refuse_chosen(parameters, *rules_of(parameters))


def _refuse_chosen(
    parameters: Mapping[str, Any], rules: frozenset[Rule], hidden: Iterable[str]
) -> None:
    path = (parameters.get("where") or ("",))[0]
    if mask_of(rules).covers(path) or (parameters.get("key") and "key" in hidden):
        raise BulkError(MaskedSourceError.code, TELLING, NEXT_STEP)
