"""Registers the app with Django."""

from django.apps import AppConfig


class CrontasksConfig(AppConfig):
    """The app `crontasks`."""

    name = "crontasks"
