"""The composition root of the domain: joins ports to adapters when Django has started.

What runs queues and relays is joined for each run, in `integration.runs`.
"""

from importlib import import_module

from django.conf import settings

from integration import log_fields
from integration.endpoint_types.builtin import register_types
from integration.handlers import outbound, ports
from integration.registries import encoding
from integration.store import dependencies, objects, outbox
from integration.tracing import spans
from integration.tracing.spans import Tracer

# Imported only where something is traced: the package is an extra.
OTEL = "integration.otel"


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
    log_fields.use(outbound.log_fields)
    spans.use(_tracer if settings.SLUICE_OTEL else None)


def _tracer() -> Tracer:
    """Made in each process when something is traced first: it has a thread of its own."""
    made: Tracer = import_module(OTEL).OtelTracer(
        settings.SLUICE_OTEL_SAMPLER, settings.SLUICE_OTEL_RATIO
    )
    return made
