"""What Django's admin shows: rows of the engine, to look at only; importing them registers them.

Configuration is changed on the console's own pages alone, so that no change escapes the audit.
"""

from console.admin import crontasks, documents, records

__all__ = ["crontasks", "documents", "records"]
