"""Schemas that judge masked values: what they refuse would tell, so who may reveal changes them."""

import json
from typing import Any

import pytest
from django.urls import reverse

from console.layout.access import Right
from integration.models import EnterpriseService, ObjectStructure, PublishChannel
from integration.selectors.masking.limits import step_unmasks, storing_unmasks
from tests.functional.setup_world import a_form
from tests.functional.test_masking import a_rule
from tests.functional.test_masking_planted import person_without, somebody
from tests.support.http_api import problem
from tests.support.operator_api import a_program

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
STRUCTURE = str(ObjectStructure._meta.verbose_name)
NARROW = {"properties": {"card": {"pattern": "^4"}}}
_NAME_OF: dict[Any, str] = {EnterpriseService: "interface", PublishChannel: "name"}


def test_a_schema_that_judges_hidden_values_is_changed_by_who_may_reveal() -> None:
    """What it refuses tells of the value: a pattern that is narrowed again and again finds it."""
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    other = EnterpriseService.objects.create(interface="OTHER")
    before = {"json_schema": None}
    structure.json_schema = NARROW

    def asks() -> bool:
        is_asked = storing_unmasks(structure)
        by_file = step_unmasks("change", STRUCTURE, "order", before, {"json_schema": NARROW})
        assert by_file is is_asked
        return is_asked

    a_rule(part="header", path="*")
    a_rule(structure=ObjectStructure.objects.create(name="other", key_paths=["$.order"]))
    a_rule(service=other)
    a_rule(enabled=False)
    assert not asks(), "these hide nothing that it judges"
    assert not step_unmasks("create", STRUCTURE, "new", {}, {"json_schema": NARROW})
    limits: list[dict[str, Any]] = [{}, {"structure": structure}, {"service": service}]
    for limit in limits:
        rule = a_rule(**limit)
        assert asks(), limit
        rule.delete()
    a_rule()
    structure.refresh_from_db()
    structure.description = "orders"
    assert not storing_unmasks(structure)
    assert not step_unmasks("change", STRUCTURE, "order", {"description": ""}, {})


def test_pages_and_files_ask_for_the_right_to_change_a_schema() -> None:
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    a_rule()
    client, schema = somebody(Right.REVEAL), json.dumps(NARROW)
    address = reverse("structure-change", args=[structure.pk])
    answer = client.post(address, a_form(client, address, json_schema=schema))
    assert answer.status_code == 403
    assert Right.REVEAL.missing in answer.text
    program = a_program(person=person_without(Right.REVEAL))
    file = f"format: 1\nstructures:\n- name: order\n  json_schema: {schema}\n"
    problem(program.put("/configuration", file.encode()), 403, "RIGHT_MISSING")
    structure.refresh_from_db()
    assert structure.json_schema is None
    client = somebody()
    form = a_form(client, address, json_schema=schema)
    assert client.post(address, form).status_code == 303
    structure.refresh_from_db()
    assert structure.json_schema == NARROW


@pytest.mark.parametrize("model", [EnterpriseService, PublishChannel])
def test_nor_is_a_structure_whose_schema_does_given_by_others(
    model: type[EnterpriseService | PublishChannel],
) -> None:
    word, name = str(model._meta.verbose_name), _NAME_OF[model]
    lax, strict = (
        ObjectStructure.objects.create(name=one, key_paths=["$.order"], json_schema=schema)
        for one, schema in (("lax", None), ("strict", NARROW))
    )
    row = model.objects.create(**{name: "ORDERS"})
    new = model(**{name: "NEW"})
    row.structure = new.structure = strict
    given = {"structure": "strict"}
    assert not storing_unmasks(row)
    assert not step_unmasks("change", word, "ORDERS", {"structure": None}, given)
    a_rule()
    assert storing_unmasks(row)
    assert storing_unmasks(new)
    assert step_unmasks("change", word, "ORDERS", {"structure": None}, given)
    assert step_unmasks("create", word, "NEW", {}, given)
    assert step_unmasks("create", word, "NEW", {}, {"structure": "of-the-same-file"})
    assert not step_unmasks("create", word, "NEW", {}, {"structure": "lax"})
    row.structure = lax
    assert not storing_unmasks(row)
    row.structure = strict
    row.save()
    row.description = "of the plant"
    assert not storing_unmasks(row), "it had that one before"
