"""Configuration in Django's admin: one module a noun; importing them registers the models."""

from console.admin import crontasks, providers, records, structures, systems

__all__ = ["crontasks", "providers", "records", "structures", "systems"]
