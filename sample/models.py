"""The tables of the sample: assets, orders for them, their meters; people who registered."""

from decimal import Decimal

from django.core.validators import MinValueValidator
from django.db import models


class Asset(models.Model):
    """A machine at a site, as the ERP knows it."""

    class Status(models.TextChoices):
        """The use that the machine is good for."""

        OPERATING = "OPERATING", "Operating"
        NOT_READY = "NOT READY", "Not ready"
        DECOMMISSIONED = "DECOMMISSIONED", "Decommissioned"

    assetnum = models.CharField(max_length=25)
    siteid = models.CharField(max_length=8)
    description = models.CharField(max_length=100)
    status = models.CharField(max_length=20, choices=Status.choices)
    location = models.CharField(max_length=25, blank=True)
    serialnum = models.CharField(max_length=64, blank=True)
    installed_on = models.DateField(null=True, blank=True)
    purchase_price = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0), validators=[MinValueValidator(0)]
    )

    class Meta:
        ordering = ["siteid", "assetnum"]
        constraints = [
            models.UniqueConstraint(fields=["siteid", "assetnum"], name="one_asset_per_site")
        ]

    def __str__(self) -> str:
        return f"{self.siteid}/{self.assetnum}"


class PurchaseOrder(models.Model):
    """An order at its newest revision."""

    class Status(models.TextChoices):
        """The progress of the order."""

        WAITING = "WAPPR", "Waiting for approval"
        APPROVED = "APPR", "Approved"
        CLOSED = "CLOSE", "Closed"

    ponum = models.CharField(max_length=20, unique=True)
    revision = models.PositiveIntegerField()
    vendor = models.CharField(max_length=60)
    status = models.CharField(max_length=8, choices=Status.choices)
    ordered_at = models.DateTimeField()

    class Meta:
        ordering = ["ponum"]

    def __str__(self) -> str:
        return f"{self.ponum} rev {self.revision}"

    @property
    def total(self) -> Decimal:
        return sum((line.quantity * line.unit_cost for line in self.lines.all()), Decimal(0))


class PurchaseOrderLine(models.Model):
    """One position of an order, for one asset."""

    order = models.ForeignKey(PurchaseOrder, on_delete=models.CASCADE, related_name="lines")
    number = models.PositiveIntegerField()
    asset = models.ForeignKey(Asset, on_delete=models.PROTECT, related_name="order_lines")
    description = models.CharField(max_length=100, blank=True)
    quantity = models.DecimalField(
        max_digits=10, decimal_places=2, validators=[MinValueValidator(Decimal("0.01"))]
    )
    unit_cost = models.DecimalField(
        max_digits=12, decimal_places=2, validators=[MinValueValidator(0)]
    )

    class Meta:
        ordering = ["order", "number"]
        constraints = [
            models.UniqueConstraint(fields=["order", "number"], name="one_line_per_number")
        ]

    def __str__(self) -> str:
        return f"{self.order_id}.{self.number}"


class MeterReading(models.Model):
    """The value that a meter of an asset showed at a time."""

    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="readings")
    meter = models.CharField(max_length=20)
    value = models.DecimalField(max_digits=14, decimal_places=3)
    read_at = models.DateTimeField()

    class Meta:
        ordering = ["-read_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["asset", "meter", "read_at"], name="one_reading_per_time"
            )
        ]

    def __str__(self) -> str:
        return f"{self.meter} at {self.read_at:%Y-%m-%d %H:%M}: {self.value}"


class Registration(models.Model):
    """A person who has registered on the website.

    No key keeps one from being there twice: that each is there once is the queue's doing.
    """

    email = models.EmailField()
    registered_at = models.DateTimeField(auto_now_add=True)
    needs_a_call = models.BooleanField(
        default=False, help_text="All retries were spent: somebody is to call."
    )

    class Meta:
        ordering = ["registered_at", "id"]

    def __str__(self) -> str:
        return self.email
