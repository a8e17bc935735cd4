"""Opens an endpoint: what is stored in its row becomes something that delivers."""

from django.utils.module_loading import import_string

from integration.endpoints.port import Deliverer
from integration.endpoints.properties import OPENERS, EndpointSettingsError, read, read_secrets
from integration.models import Endpoint


def open_endpoint(endpoint_id: int) -> Deliverer:
    """The opened endpoint of this number; close it when done.

    Asks nothing of the other side. Raises EndpointSettingsError where properties or secrets are
    wrong, Endpoint.DoesNotExist where there is no such endpoint.
    """
    return opened(Endpoint.objects.get(pk=endpoint_id))


def opened(endpoint: Endpoint) -> Deliverer:
    """The opened endpoint of a row, which need not be stored. Raises EndpointSettingsError."""
    try:
        secrets = read_secrets(endpoint.secrets)
        properties = read(endpoint.endpoint_type, endpoint.properties, secrets)
        deliverer: Deliverer = import_string(OPENERS[endpoint.endpoint_type])(properties)
    except ValueError as problem:
        raise EndpointSettingsError(str(endpoint), [str(problem)]) from problem
    return deliverer
