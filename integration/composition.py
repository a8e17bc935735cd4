"""The composition root of the domain: joins ports to adapters when Django has started.

What runs queues and relays is joined for each run, in `integration.runs`.
"""

from integration.endpoint_types.builtin import register_types
from integration.handlers import ports
from integration.registries import encoding
from integration.store import dependencies, objects, outbox


def compose() -> None:
    """Compose once in each process, before handlers are looked for."""
    ports.fill(
        ports.Ports(
            outbox=outbox.insert,
            guard=objects.claim_all,
            arrivals=dependencies.tell,
            encoder=encoding.encode,
        )
    )
    register_types()
