"""For supervisors and monitoring, without a login: does the process answer, is there progress.

They ask under any name: they know an address, not our host.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.http import require_safe

from crontasks.health import readiness

T = TypeVar("T")


class Recent(Generic[T]):
    """Looks at most once in `seconds`; whoever comes while somebody looks waits for that look."""

    def __init__(self, look: Callable[[], T], seconds: float) -> None:
        self._look = look
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: tuple[T, float] | None = None

    def get(self) -> T:
        with self._lock:
            if self._kept is None or time.monotonic() >= self._kept[1]:
                # Counted from the end: a look that took long must not be repeated by those waiting.
                value = self._look()
                self._kept = (value, time.monotonic() + self._seconds)
            return self._kept[0]

    def forget(self) -> None:
        """Look anew the next time."""
        with self._lock:
            self._kept = None


# Anybody may ask, and each look opens a connection to the broker and asks the database: a few
# seconds are nothing to monitoring, and bound what a flood of requests costs.
KEPT_SECONDS: Final = 3.0
standing: Final = Recent(readiness.look, KEPT_SECONDS)


@require_safe
@xframe_options_deny
def healthz(_: HttpRequest) -> JsonResponse:
    """Answer that this process is alive; it asks nobody else. For whoever restarts it."""
    return JsonResponse({"status": "ok"})


@require_safe
@xframe_options_deny
def readyz(_: HttpRequest) -> JsonResponse:
    """Report the progress of the installation: every check with why and what to do now.

    It is at most a few seconds old.
    """
    checks = standing.get()
    is_ready = all(check.ok for check in checks)
    body = {
        "status": "ok" if is_ready else "failing",
        "checks": [
            {
                "name": check.name,
                "state": check.health.value,
                "why": check.why,
                "next_step": check.next_step,
            }
            for check in checks
        ],
    }
    return JsonResponse(body, status=200 if is_ready else 503)


PROBES: Final[dict[str, Callable[[HttpRequest], HttpResponse]]] = {
    "/healthz": healthz,
    "/readyz": readyz,
}


class Probes:
    """Middleware that answers before host names, sessions or people are looked at.

    SLUICE_ALLOWED_HOSTS protects pages with links and forms; these two have neither.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return PROBES.get(request.path_info, self.get_response)(request)
