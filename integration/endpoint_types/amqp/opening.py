"""Opens an endpoint at a JMS broker where the library for it is installed."""

from importlib.util import find_spec

from django.utils.module_loading import import_string

from integration.endpoint_types.amqp.properties import AmqpProperties
from integration.endpoints.port import Deliverer

MISSING = (
    "This installation has no library for AMQP 1.0. Install sluice[amqp] (or what "
    "requirements-amqp.txt lists) on every machine with a worker or the web server; that needs a C "
    "compiler. Then start them anew."
)


def opened(properties: AmqpProperties) -> Deliverer:
    """The opened endpoint. Raises ValueError where the library is missing, or a certificate bad."""
    if find_spec("proton") is None:
        raise ValueError(MISSING)
    made: Deliverer = import_string("integration.endpoint_types.amqp.endpoint.AmqpEndpoint")(
        properties
    )
    return made
