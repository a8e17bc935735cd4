"""A partner of the HTTP API, with its system, service, queue and token, as it sends requests."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from integration.http_api import callers, routes
from integration.http_api.tokens import new_token
from integration.models import ApiToken, EnterpriseService, ExternalSystem, Queue
from tests.support.rows import a_queue_row

SERVICE = "OBEY"


@dataclass
class Partner:
    """One external system at the HTTP API."""

    system: ExternalSystem
    queue: Queue | None
    token: str
    row: ApiToken

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def address(self, service: str = SERVICE, address: str = "esqueue") -> str:
        return f"/{address}/{self.system.name}/{service}"

    def post(self, body: Any, **how: Any) -> HttpResponse:
        """`body`: bytes as they are, anything else as JSON. `headers` come on top of the token."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {**self.bearer, **how.get("headers", {})}
        return client().post(
            how.get("path")
            or self.address(how.get("service", SERVICE), how.get("address", "esqueue")),
            data=sent,
            content_type=how.get("content_type", "application/json"),
            headers={name: value for name, value in headers.items() if value is not None},
        )

    def ask(self, id_: str) -> HttpResponse:
        return client().get(f"/esqueue/{self.system.name}/messages/{id_}", headers=self.bearer)


def client() -> Client:
    return Client(raise_request_exception=False)


def forget() -> None:
    """What an administrator changed holds at once, as if a second had passed."""
    callers.forget()
    routes._queues.forget()


def a_token(system: ExternalSystem, name: str = "", **fields: Any) -> tuple[str, ApiToken]:
    made = new_token()
    row = ApiToken.objects.create(
        system=system,
        name=name or f"token-{uuid.uuid4().hex[:8]}",
        prefix=made.prefix,
        token_hash=made.token_hash,
        created_at=timezone.now(),
        created_by="adam",
        **{"may_call": True, **fields},
    )
    return made.text, row


def a_partner(kind: str = "continuous", **fields: Any) -> Partner:
    """A partner with one inbound queue; `fields` are the system's."""
    forget()
    name = fields.pop("name", f"partner-{uuid.uuid4().hex[:8]}")
    system = ExternalSystem.objects.create(name=name, **fields)
    EnterpriseService.objects.get_or_create(interface=SERVICE)
    queue = a_queue_row(kind, system=system) if kind else None
    text, row = a_token(system)
    return Partner(system, queue, text, row)


def problem(answer: HttpResponse, status: int, code: str) -> dict[str, Any]:
    """The problem that an answer has to be."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    said: dict[str, Any] = json.loads(answer.content)
    assert (said["code"], said["status"], said["type"]) == (code, status, "about:blank")
    assert said["detail"]
    assert said["next_step"]
    return said
