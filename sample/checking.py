"""Django's own checks of a row, told so that whoever corrects a message knows what to type."""

from collections.abc import Collection

from django.core.exceptions import ValidationError
from django.db.models import Field, Model


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
                    error.message = f"{error.message} Valid are: {_choices(row, name)}."
        raise


def _choices(row: Model, name: str) -> str:
    field = row._meta.get_field(name)
    choices = field.flatchoices if isinstance(field, Field) else []
    # Django fills a message in with the % operator.
    return ", ".join(str(value).replace("%", "%%") for value, _ in choices)
