"""Who takes the messages of an enterprise service, in words."""

from integration.handlers.registry import Registration, registry
from integration.models import ObjectStructure


def handler_of(interface: str) -> Registration | None:
    """The handler registered under this name on the process that answers."""
    return registry.get(interface)


def taken_by(interface: str, structure: ObjectStructure | None) -> str:
    """In a few words, for lists."""
    if structure is not None:
        return f"structure {structure.name}"
    found = handler_of(interface)
    return "no handler installed here" if found is None else found.origin


def effect(interface: str, structure: ObjectStructure | None) -> str:
    """What happens to a message of this service, as one sentence."""
    whose = f"Messages whose INTERFACE is {interface}" if interface else "Its messages"
    if structure is not None:
        return (
            f"{whose} are stored into the structure {structure.name}, one document a key, "
            "the newest by arrival."
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
