"""Django's own checks of a row, told so that whoever corrects a message knows what to type."""

from collections.abc import Collection
from typing import Final

from django.core.exceptions import ValidationError
from django.db.models import Field, Model

LONGEST_SAID: Final = 40


def check(row: Model, *, exclude: Collection[str] = ()) -> None:
    """Check the row's fields; a wrong choice is told with those there are.

    Raises ValidationError.
    """
    try:
        row.clean_fields(exclude=exclude)
    except ValidationError as e:
        for name, errors in e.error_dict.items():
            for error in errors:
                if error.code == "invalid_choice":
                    # Written out, it is shown to everybody: such a code is no secret.
                    said = str(getattr(row, name))[:LONGEST_SAID]
                    error.message = f"'{said}' is not valid. Valid are: {_choices(row, name)}."
                    error.params = None
        raise


def _choices(row: Model, name: str) -> str:
    field = row._meta.get_field(name)
    choices = field.flatchoices if isinstance(field, Field) else []
    return ", ".join(str(value) for value, _ in choices)
