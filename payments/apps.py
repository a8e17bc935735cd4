"""Registers the payment example with Django."""

from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    """An online store's payments: each request is charged once, and a notice says so."""

    name = "payments"
