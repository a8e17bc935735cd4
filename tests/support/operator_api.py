"""A program at the operator API: a person's token, and requests with it."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.http import HttpResponse
from django.test import Client

from console.api.document import PREFIX
from console.layout.access import Right
from console.models import PersonalToken
from console.people import personal_tokens
from tests.support.rows import a_person


@dataclass
class Program:
    """Asks in the name of its person."""

    person: User
    row: PersonalToken
    token: str

    def get(self, path: str, **query: Any) -> HttpResponse:
        return self.ask("GET", path, query=query)

    def post(self, path: str, body: Any = None, **headers: str) -> HttpResponse:
        return self.ask("POST", path, body=body, headers=headers)

    def put(self, path: str, body: Any = None, **headers: str) -> HttpResponse:
        return self.ask("PUT", path, body=body, headers=headers)

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> HttpResponse:
        """`body`: bytes as they are, anything else as JSON."""
        sent = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        client = Client(raise_request_exception=False)
        content = {} if method == "GET" else {"data": sent, "content_type": "application/json"}
        return client.generic(
            method,
            f"{PREFIX}{path}",
            query_params=query,
            headers={"Authorization": f"Bearer {self.token}", **named},
            **content,
        )


def a_program(
    role: str = "Administrators",
    rights: Iterable[Right] = personal_tokens.GRANTABLE,
    person: User | None = None,
) -> Program:
    """A token of a new person of this role with these rights, valid for a day."""
    whose = person or a_person(role)
    made = personal_tokens.make(whose, "pipeline", rights, valid_for=timedelta(days=1))
    return Program(whose, made.token, made.text)


def samples_of_api(world: dict[str, Any]) -> dict[str, Any]:
    """Parts of the API's addresses that pages name otherwise, of a world of `a_world`."""
    return {"number": world["change:number"], "kind": "systems"}


def application() -> Callable[..., Any]:
    """The installation as WSGI, within the test's transaction: like Django's client.

    Between two requests the connection to the database would be closed.
    """
    whole = get_wsgi_application()

    def inside(environ: dict[str, Any], start_response: Any) -> Any:
        for signal in (request_started, request_finished):
            signal.disconnect(close_old_connections)
        try:
            response = whole(environ, start_response)
            content = [b"".join(response)]
            response.close()
            return content
        finally:
            for signal in (request_started, request_finished):
                signal.connect(close_old_connections)

    return inside


def facts(answer: HttpResponse, status: int = 200) -> Any:
    """What a good answer says."""
    assert answer.status_code == status, answer.content
    return json.loads(answer.content)
