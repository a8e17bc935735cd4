"""What a person writes anew holds no placeholder of a masked value."""

from django.core.exceptions import ValidationError

from integration.masking.mask import placeholder_fault


def refuse_placeholder(text: str) -> None:
    """Raises ValidationError, as validators do."""
    if fault := placeholder_fault(text):
        raise ValidationError(f"{fault}.")
