"""The project; its Celery app comes first, as Celery's manual says."""

from shop.celery import app as celery_app

__all__ = ("celery_app",)
