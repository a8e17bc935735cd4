"""Configuration in Django's admin: one module a noun; importing them registers the models."""

from console.admin import crontasks, providers, queues, records, structures, systems

__all__ = ["crontasks", "providers", "queues", "records", "structures", "systems"]
