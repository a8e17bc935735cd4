"""The OpenAPI document, and what the HTTP API answers to everything that it allows, and to more.

schemathesis draws requests from the document and sends them to the application as it is shipped.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
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

from console.http_api import openapi
from console.http_api.urls import urlpatterns
from integration.models import EnterpriseService, ObjectStructure, OutboxRow
from tests.support.channels import a_channel
from tests.support.gunicorn import shipped_web
from tests.support.http_api import Partner, a_partner, a_token, client, forget

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
EXAMPLES = 8
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = ("putIntoQueue", "runAtOnce", "askForMessage", "publish")


def at_home() -> Partner:
    """Its service stores documents, which no random body can break."""
    found = a_partner()
    structure = ObjectStructure.objects.create(name="Docs", key_paths=["$.id"])
    EnterpriseService.objects.create(interface="Docs", structure=structure)
    a_channel("Orders", "shop")
    found.token, _ = a_token(found.system, may_publish=True)
    forget()
    return found


def words_for(partner: Partner, operation: str) -> dict[str, str]:
    """The parts of the address that lead somewhere."""
    if operation == "publish":
        return {"channel": "Orders"}
    if operation == "askForMessage":
        known = partner.post({"id": 1}, service="Docs").json()
        return {"system": partner.system.name, "message_id": known["message_id"]}
    return {"system": partner.system.name, "service": "Docs"}


def requests_of(schema: Any, partner: Partner, operation: str, mode: GenerationMode) -> None:
    """Draw requests of one operation, most of them to an address that leads somewhere."""
    found = schema.find_operation_by_id(operation)
    words = words_for(partner, operation)

    @given(
        case=found.as_strategy(generation_mode=mode),
        is_at_home=st.sampled_from([True, True, False]),
        is_known=st.booleans(),
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
            case.path_parameters = {**(case.path_parameters or {}), **words}
        headers = partner.bearer if is_at_home or is_known else {}
        case.validate_response(case.call(headers=headers), checks=CHECKS)

    ask()


@pytest.mark.django_db(transaction=True)
def test_no_request_is_a_server_error_and_every_answer_is_as_documented(
    child_environment: dict[str, str], tmp_path: Path
) -> None:
    partner = at_home()
    with shipped_web(child_environment, tmp_path) as port:
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
        for operation in OPERATIONS:
            for mode in GenerationMode:
                requests_of(schema, partner, operation, mode)
    stored = OutboxRow.objects.values_list("topic", flat=True).distinct()
    assert {partner.queue.topic, "shop-out"} <= set(stored), "some of the requests were good ones"


def test_the_document_is_valid_and_names_every_address() -> None:
    answer = client().get("/openapi.json")
    document = json.loads(answer.content)
    assert document == openapi.document()
    assert document["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    own = {
        "/" + str(pattern.pattern).replace("<str:", "{").replace("<path:", "{").replace(">", "}")
        for pattern in urlpatterns
    }
    legacy = {path for path in own if path.startswith("/meaweb/")}
    assert set(document["paths"]) == own - legacy
