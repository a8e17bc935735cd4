"""Lets supervisors ask /healthz and /readyz under any name: they know an address, not our host."""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

from console.monitoring import health

PROBES: Final[dict[str, Callable[[HttpRequest], HttpResponse]]] = {
    "/healthz": health.healthz,
    "/readyz": health.readyz,
}


class Probes:
    """Middleware that answers before host names, sessions or people are looked at.

    SLUICE_ALLOWED_HOSTS protects pages with links and forms; these two have neither.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return PROBES.get(request.path_info, self.get_response)(request)
