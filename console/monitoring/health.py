"""For supervisors and monitoring, without a login: does the process answer, is there progress."""

from typing import Final

from django.http import HttpRequest, JsonResponse
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.http import require_safe

from console.monitoring.recent import Recent
from crontasks.health import readiness

# Anybody may ask, and each look opens a connection to the broker and asks the database: a few
# seconds are nothing to monitoring, and bound what a flood of requests costs.
KEPT_SECONDS: Final = 3.0
standing: Final = Recent(readiness.look, KEPT_SECONDS)


@require_safe
@xframe_options_deny
def healthz(_: HttpRequest) -> JsonResponse:
    """Whether this process answers at all; it asks nobody else. For whoever restarts it."""
    return JsonResponse({"status": "ok"})


@require_safe
@xframe_options_deny
def readyz(_: HttpRequest) -> JsonResponse:
    """Whether the installation makes progress: every check with why and what to do now.

    What is told is at most a few seconds old.
    """
    checks = standing.get()
    is_ready = all(check.ok for check in checks)
    told = {
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
    return JsonResponse(told, status=200 if is_ready else 503)
