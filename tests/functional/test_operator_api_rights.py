"""Every role against every address and method of the operator API, from its own document."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from console.api.document import PREFIX
from console.api.routes import RIGHTS
from console.api.urls import document
from console.layout.access import ROLES, Right
from console.people.personal_tokens import GRANTABLE
from devstack.servers import Servers
from tests.support.contents import content
from tests.support.every_page import a_cluster_for_it, a_world
from tests.support.http_api import problem
from tests.support.operator_api import a_program, samples_of_api

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(300)]
# What a query has to say leads somewhere by the sample of this name.
QUERY = {"id": "message_id"}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
HARMLESS = frozenset({200, 201, 202, 404, 409, 422, 503})


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation with the rights that its document names."""

    name: str
    method: str
    path: str
    rights: frozenset[Right]


def every_operation(samples: dict[str, Any]) -> Iterator[Operation]:
    by_word = {right.word: right for right in Right}
    for path, methods in document()["paths"].items():
        filled = path.removeprefix(PREFIX).format_map({**samples, **samples_of_api(samples)})
        for method, said in methods.items():
            rights = frozenset(by_word[word] for word in said[RIGHTS])
            needed = {one["name"] for one in said.get("parameters", ()) if one["required"]}
            asked = {name: samples[key] for name, key in QUERY.items() if name in needed}
            query = urlencode(asked)
            address = f"{filled}?{query}" if query else filled
            yield Operation(said["operationId"], method.upper(), address, rights)


def test_every_operation_needs_a_right_and_no_address_is_left_out() -> None:
    found = list(every_operation(a_world()))
    assert len({one.name for one in found}) == len(found)
    assert all(Right.VIEW in one.rights for one in found)
    rooms = {one.path.partition("?")[0].split("/")[1] for one in found}
    work = {"failures", "operations", "queues", "notices", "cron", "bulk"}
    work |= {"outbox", "endpoints", "messages", "set-up"}
    assert rooms == work | {"configuration", "changes"}
    acting = [one for one in found if one.method != "GET"]
    assert all(len(one.rights) > 1 for one in acting), "who may only see changes nothing"


def test_strangers_get_nowhere_by_any_method() -> None:
    operations = list(every_operation(a_world()))
    before = content()
    for one in operations:
        answer = Client().generic(one.method, f"{PREFIX}{one.path}")
        problem(answer, 401, "NO_PERSONAL_TOKEN")
    for path in {one.path for one in operations}:
        here = {one.method for one in operations if one.path == path}
        for method in set(METHODS) - here:
            assert Client().generic(method, f"{PREFIX}{path}").status_code == 405, (method, path)
    assert content() == before


@pytest.mark.parametrize("role", ["", *ROLES])
def test_each_role_is_refused_what_it_may_not_do_and_reaches_the_rest(
    servers: Servers, role: str
) -> None:
    a_cluster_for_it(servers.kafka_bootstrap)
    operations, program = list(every_operation(a_world())), a_program(role)
    program.get("/failures")  # its last use is noted, for this minute
    given, before = frozenset(ROLES.get(role, ())), content()
    refused = [one for one in operations if not given >= one.rights]
    assert bool(refused) is (role != "Administrators")
    for one in refused:
        answer = program.ask(one.method, one.path)
        assert answer.status_code == 403, (role, one)
        problem(answer, 403, "RIGHT_MISSING")
    assert content() == before
    for one in operations:
        if one not in refused:
            status = program.ask(one.method, one.path).status_code
            assert status in HARMLESS, (role, one, status)


@pytest.mark.parametrize("right", GRANTABLE)
def test_a_token_is_refused_what_it_was_not_given(right: Right) -> None:
    """Its person may do everything."""
    operations = list(every_operation(a_world()))
    program = a_program("Administrators", [one for one in GRANTABLE if one is not right])
    program.get("/failures")
    before = content()
    asked = [one for one in operations if right in one.rights]
    assert asked
    for one in asked:
        problem(program.ask(one.method, one.path), 403, "RIGHT_MISSING")
    assert content() == before
