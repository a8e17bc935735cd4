"""For load balancers and supervisors: is this process alive and does the database answer."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from integration.selectors.deployment import database_answers


@require_safe
def healthz(_: HttpRequest) -> JsonResponse:
    answers = database_answers()
    told = {"status": "ok" if answers else "down", "database": "ok" if answers else "no answer"}
    return JsonResponse(told, status=200 if answers else 503)
