"""What is out of a person's limit does not exist for them, at any address of the table."""

from typing import Any

import pytest
from django.test import Client

from console.models import Limit
from tests.functional.test_console_access import HARMLESS, ask, content
from tests.support.every_page import OWN, PUBLIC, a_world, every_address
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def world() -> dict[str, Any]:
    return a_world()


@pytest.mark.parametrize("method", ["get", "post"])
def test_what_is_out_of_a_persons_limit_does_not_exist_for_them(
    world: dict[str, Any], method: str
) -> None:
    eva = a_person("Administrators")
    Limit.objects.create(person=eva)
    client = Client(raise_request_exception=False)
    client.force_login(eva)
    before = content()
    for address in every_address(world):
        if address.name in PUBLIC | OWN:
            continue
        answer = ask(client, method, address.path)
        assert answer.status_code in HARMLESS | {403}, (address.name, answer.status_code)
        # "There is no queue hidden-away" repeats what was typed into the address, no more.
        if answer.status_code == 404 or answer.streaming:
            continue
        assert "hidden-away" not in answer.text.replace(address.path, ""), address.name
    assert content() == before
