"""For supervisors and monitoring, without a login: does the process answer, is there progress."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.http import require_safe

from crontasks.health import readiness


@require_safe
@xframe_options_deny
def healthz(_: HttpRequest) -> JsonResponse:
    """Whether this process answers at all; it asks nobody else. For whoever restarts it."""
    return JsonResponse({"status": "ok"})


@require_safe
@xframe_options_deny
def readyz(_: HttpRequest) -> JsonResponse:
    """Whether the installation makes progress: every check with why and what to do now."""
    checks = readiness.look()
    is_ready = readiness.is_ready(checks)
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
