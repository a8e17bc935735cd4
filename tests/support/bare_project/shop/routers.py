"""Where the project's tables are."""

from typing import Any


class OrdersAreArchived:
    """Orders are in a database of their own, everything else is left to Django."""

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return "archive" if model._meta.app_label == "orders" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        if db == "archive" or app_label == "orders":
            return (db, app_label) == ("archive", "orders")
        return None
