"""Opens the handler of an endpoint: what is stored in its row becomes something that delivers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from django.conf import settings

from integration.endpoints.credentials import authorities_file, tls_context
from integration.endpoints.database import DatabaseEndpoint
from integration.endpoints.database_properties import DatabaseProperties
from integration.endpoints.file_properties import FileProperties
from integration.endpoints.files import FileEndpoint
from integration.endpoints.http import HttpEndpoint
from integration.endpoints.http_properties import HttpProperties
from integration.endpoints.port import Deliverer
from integration.endpoints.properties import EndpointSettingsError, read, read_secrets
from integration.endpoints.python import PythonEndpoint
from integration.endpoints.python_properties import PythonProperties
from integration.models import Endpoint
from integration.store.sessions import raw_connection


def open_endpoint(endpoint_id: int) -> Deliverer:
    """The opened handler of an endpoint; close it when done.

    Asks nothing of the other side. Raises EndpointSettingsError where properties or secrets are
    wrong, Endpoint.DoesNotExist where there is no such endpoint.
    """
    return opened(Endpoint.objects.get(pk=endpoint_id))


def opened(endpoint: Endpoint) -> Deliverer:
    """The opened handler of a row, which need not be stored. Raises EndpointSettingsError."""
    try:
        secrets = read_secrets(endpoint.secrets)
        properties = read(endpoint.handler_type, endpoint.properties, secrets)
        return _OPENERS[type(properties)](properties)
    except ValueError as problem:
        raise EndpointSettingsError(str(endpoint), [str(problem)]) from problem


def _http(properties: HttpProperties) -> Deliverer:
    tls = tls_context(
        properties.ca_certificate, properties.client_certificate, properties.client_key
    )
    return HttpEndpoint(properties, tls)


def _file(properties: FileProperties) -> Deliverer:
    root = settings.SLUICE_FILES_ROOT
    if root is None:
        raise ValueError(
            "This installation has no base folder for files: set SLUICE_FILES_ROOT for every "
            "process and start them anew."
        )
    return FileEndpoint(properties, root)


def _database(properties: DatabaseProperties) -> Deliverer:
    text = properties.ca_certificate
    own = partial(raw_connection, "sluice endpoint")
    return DatabaseEndpoint(properties, authorities_file(text) if text else None, own)


_OPENERS: Final[Mapping[type[Any], Callable[[Any], Deliverer]]] = {
    HttpProperties: _http,
    FileProperties: _file,
    DatabaseProperties: _database,
    PythonProperties: PythonEndpoint,
}
