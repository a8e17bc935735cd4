"""Enterprise services: which a person may know of, and in words who takes their messages."""

from difflib import get_close_matches
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from integration.handlers.registry import Registration, registry
from integration.models import EnterpriseService, MessageError, ObjectStructure, Queue
from integration.policy.retry import RetryRule
from integration.policy.states import OPEN
from integration.selectors.failures.advice import NOBODY_TAKES, SERVICE_ON_AGAIN
from integration.selectors.scope import Scope

# Names that are listed for someone to choose from; more of them are counted.
LISTED: Final = 10


def services(scope: Scope) -> QuerySet[EnterpriseService]:
    """The services that a person may know of, by interface, with their structures.

    All people share services; only one that queues of others alone have as their default belongs
    to those. It is still known to whom one of its messages has failed: its page says why.
    """
    rows = EnterpriseService.objects.select_related("structure").order_by("interface")
    if scope.is_whole:
        return rows
    defaults = Queue.objects.filter(default_service=OuterRef("pk"))
    failed = MessageError.objects.filter(
        scope.within("queue__system"),
        interface=OuterRef("interface"),
        state__in=[state.value for state in OPEN],
    )
    mine = Exists(defaults.filter(scope.within("system")))
    return rows.filter(Q(~Exists(defaults)) | Q(mine) | Q(Exists(failed)))


def handler_of(interface: str) -> Registration | None:
    """The handler registered under this name on the process that answers."""
    return registry.get(interface)


def declared(interface: str) -> RetryRule | None:
    """Return the rule for retries that the handler of this process declares, if it does."""
    handler = handler_of(interface)
    return None if handler is None else handler.retry


def hook_of(interface: str) -> str:
    """Name what its handler has called when the retries of a message are spent; empty: nothing."""
    handler = handler_of(interface)
    hook = None if handler is None else handler.on_exhausted
    return "" if hook is None else str(getattr(hook, "__qualname__", type(hook).__qualname__))


def taken_by(interface: str, structure: ObjectStructure | None) -> str:
    """Name it in a few words, for lists."""
    if structure is not None:
        return f"structure {structure.name}"
    handler = handler_of(interface)
    return "no handler installed here" if handler is None else handler.origin


def standstill(service: EnterpriseService) -> str:
    """Say what switching this service on would stop; empty where somebody takes it.

    Only this process knows its handlers: no worker tells which ones it has.
    """
    if service.structure_id is not None or handler_of(service.interface) is not None:
        return ""
    return (
        f"No handler for {service.interface} is installed in the web process, and it "
        "has no structure. If the workers have none either, switching it on stops every partition "
        "at its next message, messages of other services too, until the app is installed on every "
        "worker or the service is off again."
    )


def lack_of(interface: str) -> str:
    """Return what a message held as SERVICE_DISABLED lacks now: a code of selectors.advice."""
    service = EnterpriseService.objects.filter(interface=interface).first()
    if service is None:
        return "SERVICE_DISABLED"
    if standstill(service):
        return "HANDLER_MISSING" if service.enabled else NOBODY_TAKES
    return SERVICE_ON_AGAIN if service.enabled else "SERVICE_DISABLED"


def number_of(interface: str) -> int | None:
    """The primary key of the service of this name; None where there is none."""
    rows = EnterpriseService.objects.filter(interface=interface)
    return rows.values_list("pk", flat=True).first()


def newest_by(structure: ObjectStructure) -> str:
    """Say which of two documents of one key counts as the newer, as the structure has it."""
    if not structure.version_path:
        return "by arrival"
    return f"by {structure.version_path}, then by arrival"


def effect(interface: str, structure: ObjectStructure | None) -> str:
    """Say what happens to a message of this service, as one sentence."""
    whose = f"Messages whose INTERFACE is {interface}" if interface else "Its messages"
    if structure is not None:
        return (
            f"{whose} are stored into the structure {structure.name}, one document a key, "
            f"the newest {newest_by(structure)}."
        )
    if not interface:
        return "A structure stores them; without one the handler of the same name takes them."
    handler = handler_of(interface)
    if handler is None:
        return (
            f"{whose} wait: no handler of that name is installed on this process. "
            f"{_installed_beside(interface)} Choose a structure, or install the app that has the "
            "handler (SLUICE_INTEGRATIONS) everywhere."
        )
    return f"{whose} are given to {handler.origin}, which is installed here."


def _installed_beside(interface: str) -> str:
    """Name the handlers that this process has, and the one that may have been meant."""
    names = [handler.interface for handler in registry]
    if not names:
        return "There are none at all here."
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    told = f"Installed are {', '.join(names[:LISTED])}{more}."
    # Names are case-sensitive, and a wrong case is the commonest mistake.
    by_folded = {name.casefold(): name for name in names}
    close = get_close_matches(interface.casefold(), by_folded, n=1)
    return f"{told} Did you mean {by_folded[close[0]]}?" if close else told
