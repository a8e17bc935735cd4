"""How the form of an endpoint is laid out, by handler type; which fields count beside others."""

from collections.abc import Mapping
from typing import Any

from crispy_forms.layout import Div, Field, Fieldset

from integration.endpoints.declared import Declared, declarations
from integration.endpoints.properties import KINDS


def laid_out(handler_type: str, fields: Mapping[str, Any]) -> list[Fieldset]:
    """The parts of a type, with what counts only beside another field marked as such."""
    kind = KINDS[handler_type]
    known = declarations(kind)
    return [
        Fieldset(title, *(_row(name, known[name], fields) for name in names))
        for title, names in kind.parts
    ]


def _row(name: str, declared: Declared, fields: Mapping[str, Any]) -> Div | Field:
    wanted = [one for one in (name, f"remove_{name}") if one in fields]
    if declared.only is None:
        return Div(*(Field(one) for one in wanted))
    # The style sheet shows them while their choice is made; without it they are all there.
    other, values = declared.only
    marks = " ".join(f"only-{other}-{value}" for value in values)
    return Div(*(Field(one) for one in wanted), css_class=f"only {marks}")
