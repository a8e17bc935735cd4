"""The operator API's document, and what is answered to everything that it allows, and to more."""

from typing import Any

import jsonschema
import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.checks import content_type_conformance

from console.api.document import PREFIX
from console.api.urls import document
from devstack.servers import Servers
from tests.support.every_page import a_cluster_for_it, a_world
from tests.support.operator_api import Program, a_program, application, samples_of_api

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(300)]
EXAMPLES = 3
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# A file is not drawn as a form.
LEFT_OUT = frozenset({"bulk_upload_file"})


def named() -> list[str]:
    operations = [one for methods in document()["paths"].values() for one in methods.values()]
    return sorted(one["operationId"] for one in operations)


def samples_for(operation: Any, world: dict[str, Any]) -> dict[str, Any]:
    """The parts of the address that lead somewhere."""
    parts = {**world, **samples_of_api(world)}
    return {part.name: str(parts[part.name]) for part in operation.path_parameters}


def requests_of(
    operation: Any, world: dict[str, Any], program: Program, mode: GenerationMode
) -> None:
    known = samples_for(operation, world)

    @given(
        case=operation.as_strategy(generation_mode=mode),
        is_at_home=st.sampled_from([True, True, False]),
        is_known=st.sampled_from([True, True, True, False]),
    )
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any, *, is_at_home: bool, is_known: bool) -> None:
        if is_at_home:
            case.path_parameters = {**(case.path_parameters or {}), **known}
        headers = {"Authorization": f"Bearer {program.token}"} if is_known else {}
        case.validate_response(case.call(headers=headers), checks=CHECKS)

    ask()


def test_no_request_is_a_server_error_and_every_answer_is_as_documented(servers: Servers) -> None:
    a_cluster_for_it(servers.kafka_bootstrap)
    world, program = a_world(), a_program()
    schema = schemathesis.openapi.from_wsgi(f"{PREFIX}/openapi.json", app=application())
    for name in set(named()) - LEFT_OUT:
        for mode in GenerationMode:
            requests_of(schema.find_operation_by_id(name), world, program, mode)


def test_the_document_is_valid_and_is_read_without_a_token() -> None:
    answer = Client().get(f"{PREFIX}/openapi.json")
    assert answer.json() == document()
    schemathesis.openapi.from_dict(document()).validate()
    for schema in document()["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
