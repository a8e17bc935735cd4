"""Partners, where their messages go, and what is exchanged with them."""

from django.contrib import admin

from integration.models import Endpoint, EnterpriseService, ExternalSystem


@admin.register(ExternalSystem)
class ExternalSystemAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Partners."""

    list_display = ("name", "description", "enabled")
    list_filter = ("enabled",)
    search_fields = ("name", "description")


@admin.register(Endpoint)
class EndpointAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Where outbound messages will be delivered."""

    fieldsets = (
        (
            None,
            {
                "fields": ("name", "system", "handler_type", "properties"),
                "description": "Nothing delivers to endpoints yet: outgoing messages end in their "
                "Kafka topic. What is entered here is kept for later.",
            },
        ),
    )
    list_display = ("name", "system", "handler_type")
    list_filter = ("handler_type",)
    list_select_related = ("system",)
    search_fields = ("name",)


@admin.register(EnterpriseService)
class EnterpriseServiceAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Inbound message types."""

    list_display = ("interface", "description", "structure", "enabled")
    list_filter = ("enabled",)
    list_select_related = ("structure",)
    search_fields = ("interface", "description")
