"""Addresses of the operator API. They are no pages: console.api.entrance answers them."""

from functools import cache
from typing import Any, Final

from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_GET

from console.api import (
    bulk,
    changes,
    configuration,
    cron,
    endpoints,
    failures,
    messages,
    notices,
    operations,
    outbox,
    problems,
    queues,
    setup,
)
from console.api.document import DESCRIPTION, PREFIX, VERSION, Api, document_of

api: Final = Api(
    title="Sluice operator API",
    version=VERSION,
    description=DESCRIPTION,
    urls_namespace="operator",
    openapi_url=None,
    docs_url=None,
)
_ROOMS: Final = (
    *(failures, operations, queues, outbox, endpoints, messages, notices),
    *(cron, bulk, setup, configuration, changes),
)
for _room in _ROOMS:
    api.add_router("", _room.router)
problems.connect(api)


@cache
def document() -> dict[str, Any]:
    return document_of(api)


@require_GET
def openapi(_: HttpRequest) -> JsonResponse:
    """The OpenAPI document: what it says is no secret."""
    return JsonResponse(document())


urlpatterns = [
    path(f"{PREFIX}/openapi.json".lstrip("/"), openapi, name="operator-openapi"),
    path(f"{PREFIX}/".lstrip("/"), api.urls),
]
