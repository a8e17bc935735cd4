"""Registers the sample integration with Django."""

from django.apps import AppConfig


class SampleConfig(AppConfig):
    """A believable maintenance department: assets, purchase orders, meter readings."""

    name = "sample"
