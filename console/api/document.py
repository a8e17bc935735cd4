"""The OpenAPI document: what the library reads from the operations, and what it cannot know."""

from functools import cache
from typing import Any, Final

from ninja import NinjaAPI
from ninja.operation import Operation

from console.api.once import HEADER, KEPT_DAYS
from console.api.routes import ACTS
from console.http_api.openapi import SCHEMAS
from console.http_api.reading import LONGEST_ID

PREFIX: Final = "/operator/v1"
VERSION: Final = "1"
SCHEME: Final = "personalToken"
DESCRIPTION: Final = (
    "A program does here whatever a person does in the console: in the name of the person whose "
    "token it has, within their rights. Every answer but a good one is application/problem+json "
    "with a stable `code`, a sentence and the next step. `x-rights` are the rights that an "
    "operation needs."
)
_REFUSALS: Final = {
    "400": "A header is wrong, or the body was cut short.",
    "401": "No valid personal token came with the request.",
    "403": "The person or the token may not do this.",
    "404": "There is no such thing, or none that this person may know of.",
    "409": "It has moved on, or is not possible as things stand; nothing was changed.",
    "413": "The body is too large.",
    "422": "What came with the request cannot be used; nothing was changed.",
    "500": "A mistake in Sluice itself.",
    "503": "It cannot be done now; the same request may succeed later.",
}
_KEY: Final = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": f"The same request with the same key is done once; kept {KEPT_DAYS} days.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_ID, "pattern": "^[!-~]+$"},
}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_YAML: Final = {"application/yaml": {"schema": {"type": "object"}}}
# Operations whose answer is no JSON.
_OTHER: Final = {"failures_read_record": _BYTES, "configuration_export_configuration": _YAML}


class Api(NinjaAPI):
    """Operations named by their module, such as failures_release_failure."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        view = operation.view_func
        return f"{view.__module__.rpartition('.')[2]}_{view.__name__}"


def document_of(api: NinjaAPI) -> dict[str, Any]:
    """The whole document, without any name of this installation."""
    found: dict[str, Any] = dict(api.get_openapi_schema(path_prefix=PREFIX))
    components = found.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = _problem()
    components["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
    components["responses"] = {status: _refusal(status) for status in _REFUSALS}
    for methods in found["paths"].values():
        for operation in methods.values():
            _complete(operation)
    return found


def _problem() -> dict[str, Any]:
    """As the partners' API has it, and the mistakes in what was sent."""
    text = {"type": "string"}
    mistake = {"type": "object", "properties": {"place": text, "text": text}}
    plain: dict[str, Any] = SCHEMAS["Problem"]
    properties = {**plain["properties"], "mistakes": {"type": "array", "items": mistake}}
    return {**plain, "properties": properties}


def _complete(operation: dict[str, Any]) -> None:
    operation["security"] = [{SCHEME: []}]
    responses: dict[str, Any] = operation["responses"]
    for status in list(responses):
        good = responses.pop(status)
        responses[str(status)] = good
        if content := _OTHER.get(operation["operationId"]):
            good["content"] = content
    for status in _REFUSALS:
        responses[status] = {"$ref": f"#/components/responses/{status}"}
    if operation.get(ACTS):
        operation.setdefault("parameters", []).append(_KEY)


@cache
def _refusal(status: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": _REFUSALS[status], "content": content}
