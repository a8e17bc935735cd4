"""A planted secret: no page, answer, file or line of a log shows it to who may not reveal."""

import logging
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from console.layout.access import Right
from devstack.servers import Servers
from integration.models import ConfigurationChange
from tests.functional.test_operator_api_rights import every_operation
from tests.support.every_page import a_cluster_for_it, every_address
from tests.support.operator_api import a_program
from tests.support.planted import Planted, a_planted_world, is_in, rules
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(120)]


@pytest.fixture
def planted(servers: Servers) -> Planted:
    a_cluster_for_it(servers.kafka_bootstrap)
    return a_planted_world()


def somebody(*but: Right) -> Client:
    """A person with every right but these."""
    person = a_person()
    codes = [right.permission.split(".")[1] for right in Right if right not in but]
    person.user_permissions.set(Permission.objects.filter(codename__in=codes))
    client = Client()
    client.force_login(person)
    return client


def leaving(client: Client, planted: Planted) -> Iterator[tuple[str, bytes]]:
    """Every address of the console, and lists by what they are asked; with what they answer."""
    for address in every_address(planted.samples):
        answer = client.get(address.path)
        yield address.name, b"".join(answer) if answer.streaming else answer.content
    for name, query in planted.lists:
        yield f"{name}?{query}", client.get(reverse(name), query).content


def test_no_page_and_no_file_shows_it_to_who_may_not_reveal(
    planted: Planted, caplog: pytest.LogCaptureFixture
) -> None:
    shown = {name for name, content in leaving(somebody(Right.REVEAL), planted) if is_in(content)}
    # So the search would find it: without rules it is on all of these.
    assert shown >= {
        *("failure", "edit", "record", "outbox-row", "operation", "queue", "overview"),
        *("delivery-endpoint", "failures", "tracked-message?{'id': 'plant/EAM/10'}"),
    }
    rules()
    caplog.set_level(logging.DEBUG)
    for client in (somebody(Right.REVEAL), somebody(Right.REVEAL, Right.VIEW_PAYLOAD)):
        leaks = [name for name, content in leaving(client, planted) if is_in(content)]
        assert leaks == []
    assert not is_in(caplog.text.encode())
    assert not is_in(str(list(ConfigurationChange.every.values())).encode()), "nor does the audit"


def test_the_operator_api_tells_it_to_no_program(planted: Planted) -> None:
    program = a_program()

    def leaks() -> set[str]:
        asked = [one for one in every_operation(planted.samples) if one.method == "GET"]
        answers = {one.name: program.ask("GET", one.path) for one in asked}
        return {name for name, answer in answers.items() if is_in(answer.content)}

    assert {name for name in leaks() if "payload" in name or "record" in name}
    rules()
    assert leaks() == set()
