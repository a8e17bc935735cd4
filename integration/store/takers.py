"""Takers of an enterprise service's messages: a structure, a registered handler, or nobody."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from integration.handlers.databases import guarded
from integration.handlers.registry import Registration, registry
from integration.policy.failure import Failure, FailureClass
from integration.store.objects import store_documents


@dataclass(frozen=True, slots=True)
class Missing:
    """No handler for the interface is installed on this worker; others may have it."""

    interface: str

    @property
    def failure(self) -> Failure:
        return Failure(
            FailureClass.DISABLED,
            "HANDLER_MISSING",
            f"No handler for {self.interface!r} is installed on this worker. Install the app "
            "that has it (SLUICE_INTEGRATIONS), or give the service an object structure.",
        )


def structure_handler(structure: Any, interface: str = "") -> Registration:
    """The handler that stores each message into an ObjectStructure row."""
    return Registration(
        interface=interface or structure.name,
        call=partial(store_documents, structure),
        batch=True,
        isolated=False,
        at_least_once=False,
        origin=f"object structure {structure.name}",
    )


def resolve(interface: str, service: Any) -> Registration | Missing:
    """The taker of an EnterpriseService row: its structure, else the registered handler.

    With several databases configured the handler comes under a guard against the others.
    """
    if service is not None and service.structure is not None:
        return structure_handler(service.structure, interface)
    handler = registry.get(interface)
    return Missing(interface) if handler is None else guarded(handler)
