"""The table of the example: what buyers were charged."""

from decimal import Decimal

from django.core.validators import MinValueValidator
from django.db import models


class Charge(models.Model):
    """A payment that was charged."""

    # A table in production would have a unique constraint on it. This one has none, so that a
    # payment that was charged twice would be there twice, and be seen.
    payment = models.CharField(max_length=40, db_index=True)
    amount = models.DecimalField(
        max_digits=12, decimal_places=2, validators=[MinValueValidator(Decimal("0.01"))]
    )
    currency = models.CharField(max_length=3)
    charged_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["charged_at", "id"]

    def __str__(self) -> str:
        return f"{self.payment}: {self.amount} {self.currency}"
