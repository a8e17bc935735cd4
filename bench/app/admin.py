"""Django's own list of the error table, as one would register it: what ours is compared with."""

from django.contrib import admin

from integration.models import MessageError


@admin.register(MessageError)
class MessageErrorAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """The columns of the console's list, and nothing else said."""

    list_display = (
        "id",
        "queue",
        "state",
        "code",
        "interface",
        "attempts",
        "first_failed_at",
        "last_failed_at",
    )
    list_filter = ("state", "queue", "code")
    list_per_page = 50
