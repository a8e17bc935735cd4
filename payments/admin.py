"""The charges among Django's own pages of the console, to look at only."""

from django.contrib import admin

from console.admin.records import LookedAt
from payments.models import Charge


@admin.register(Charge)
class ChargeAdmin(LookedAt):
    """Each payment is to be there once."""

    about = "What buyers were charged. The handler of the payment example writes each row."
    list_display = ("payment", "amount", "currency", "charged_at")
    search_fields = ("payment",)
    ordering = ("-charged_at", "-id")
