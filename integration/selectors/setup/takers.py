"""Who takes the messages of an enterprise service, in words."""

from integration.handlers.registry import Registration, registry
from integration.models import EnterpriseService, ObjectStructure
from integration.selectors.failures.advice import NOBODY_TAKES, SERVICE_ON_AGAIN


def handler_of(interface: str) -> Registration | None:
    """The handler registered under this name on the process that answers."""
    return registry.get(interface)


def taken_by(interface: str, structure: ObjectStructure | None) -> str:
    """In a few words, for lists."""
    if structure is not None:
        return f"structure {structure.name}"
    found = handler_of(interface)
    return "no handler installed here" if found is None else found.origin


def standstill(service: EnterpriseService) -> str:
    """What switching this service on would stop, as a sentence; empty where somebody takes it.

    Only this process knows its handlers: no worker tells which ones it has.
    """
    if service.structure_id is not None or handler_of(service.interface) is not None:
        return ""
    return (
        f"No handler for {service.interface} is installed on the process that answers you, and it "
        "has no structure. If the workers have none either, switching it on stops every partition "
        "at its next message, messages of other services too, until the app is installed on every "
        "worker or the service is off again."
    )


def lack_of(interface: str) -> str:
    """What a message that was held as SERVICE_DISABLED lacks now: a code of selectors.advice."""
    service = EnterpriseService.objects.filter(interface=interface).first()
    if service is None:
        return "SERVICE_DISABLED"
    if standstill(service):
        return "HANDLER_MISSING" if service.enabled else NOBODY_TAKES
    return SERVICE_ON_AGAIN if service.enabled else "SERVICE_DISABLED"


def number_of(interface: str) -> int | None:
    """The primary key of the service of this name; None where there is none."""
    found = EnterpriseService.objects.filter(interface=interface)
    return found.values_list("pk", flat=True).first()


def newest_by(structure: ObjectStructure) -> str:
    """Which of two documents of one key counts as the newer, as the structure says."""
    if not structure.version_path:
        return "by arrival"
    return f"by {structure.version_path}, then by arrival"


def effect(interface: str, structure: ObjectStructure | None) -> str:
    """What happens to a message of this service, as one sentence."""
    whose = f"Messages whose INTERFACE is {interface}" if interface else "Its messages"
    if structure is not None:
        return (
            f"{whose} are stored into the structure {structure.name}, one document a key, "
            f"the newest {newest_by(structure)}."
        )
    if not interface:
        return "A structure stores them; without one the handler of the same name takes them."
    found = handler_of(interface)
    if found is None:
        return (
            f"{whose} wait: no handler of that name is installed on this process. Choose a "
            "structure, or install the app that has the handler (SLUICE_INTEGRATIONS) everywhere."
        )
    return f"{whose} are given to {found.origin}, which is installed here."
