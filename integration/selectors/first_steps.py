"""The things an installation has that its first message needs."""

from integration.models import EnterpriseService, ExternalSystem, Provider, Queue


def present() -> list[bool]:
    """Tell whether there is a provider, a system, a service, a queue.

    Asked only while there is no queue: four small queries.
    """
    return [
        model.objects.exists() for model in (Provider, ExternalSystem, EnterpriseService, Queue)
    ]
