"""Logging in: one door, and a limit of tries that counts names and addresses in Valkey."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from integration.models import ConfigurationChange
from tests.support.rows import PASSWORD, a_person, an_address

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


@pytest.fixture(autouse=True)
def few_tries(settings: Any) -> None:
    settings.SLUICE_LOGIN_TRIES = 2


def a_name() -> str:
    return f"person-{uuid.uuid4().hex}"


def tried(name: str, password: str = "wrong", address: str = "", **headers: str) -> Any:  # noqa: S107
    data = {"username": name, "password": password}
    client = Client(REMOTE_ADDR=address or an_address())
    return client.post(reverse("login"), data, headers=headers)


def test_a_name_is_locked_after_its_tries_from_wherever_and_told_for_how_long() -> None:
    name = a_person("Viewers", a_name()).username
    assert [tried(name).status_code for _ in range(3)] == [200, 200, 429]
    answer = tried(name.upper(), PASSWORD)
    assert answer.status_code == 429
    assert "TOO_MANY_LOGINS" in answer.text
    assert 'for="id_username">Username</label>' in answer.text
    assert 890 <= int(answer["Retry-After"]) <= 900
    assert tried(a_person("Viewers", a_name()).username, PASSWORD).status_code == 302


def test_spaces_and_other_ways_to_write_a_name_begin_no_new_count() -> None:
    name = a_person("Viewers", a_name()).username
    wide = name.replace("person", "\uff50erson")
    written = [name, f"{name} ", f"\u00a0{name}", f" {wide}\t"]
    assert [tried(one).status_code for one in written] == [200, 200, 429, 429]
    assert tried(f" {a_person('Viewers', a_name()).username} ", PASSWORD).status_code == 302


def test_an_address_is_locked_after_its_tries_under_whatever_names() -> None:
    address = an_address()
    answers = [tried(a_name(), address=address).status_code for _ in range(11)]
    assert answers == [200] * 10 + [429]


def test_a_success_clears_the_name_and_is_no_failure_of_the_address() -> None:
    name, address = a_person("Viewers", a_name()).username, an_address()
    for _ in range(6):
        assert tried(name, address=address).status_code == 200
        assert tried(name, PASSWORD, address).status_code == 302


def test_without_valkey_people_still_log_in(settings: Any) -> None:
    settings.SLUICE_CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    name = a_person("Viewers", a_name()).username
    assert [tried(name).status_code for _ in range(4)] == [200] * 4
    assert tried(name, PASSWORD).status_code == 302


def test_a_forwarded_address_is_not_believed_where_no_proxy_is_said_to_be() -> None:
    address = an_address()
    for _ in range(10):
        tried(a_name(), address=address, x_forwarded_for=an_address())
    assert tried(a_name(), address=address, x_forwarded_for=an_address()).status_code == 429


def test_behind_a_proxy_the_address_is_the_one_that_the_proxy_wrote(settings: Any) -> None:
    settings.SLUICE_PROXIES = 1
    proxy, client = an_address(), an_address()
    for _ in range(10):
        tried(a_name(), address=proxy, x_forwarded_for=f"{an_address()}, {client}")
    assert tried(a_name(), address=proxy, x_forwarded_for=client).status_code == 429
    assert tried(a_name(), address=proxy, x_forwarded_for=an_address()).status_code == 200


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ("/admin/integration/gap/", "/admin/integration/gap/"),
        ("https://elsewhere.example/", "/admin/"),
        ("//elsewhere.example/", "/admin/"),
        ("", "/admin/"),
    ],
)
def test_the_admins_login_leads_to_the_one_door_and_keeps_only_our_own_next(
    wanted: str, kept: str
) -> None:
    name = a_person("Administrators", a_name()).username
    for answer in (
        Client().get("/admin/login/", {"next": wanted}),
        Client().post(f"/admin/login/?next={wanted}", {"username": name, "password": PASSWORD}),
    ):
        assert answer.status_code == 302
        assert answer["Location"] == f"{reverse('login')}?next={kept.replace('/', '%2F')}"
        assert "sessionid" not in answer.cookies


def test_who_may_not_use_the_admin_is_told_so_instead_of_led_in_circles() -> None:
    client = Client()
    client.force_login(a_person("Viewers", a_name()))
    assert client.get("/admin/", follow=True).status_code == 403


def test_tries_of_the_old_password_are_counted_and_a_new_one_is_in_the_audit() -> None:
    person, new = a_person("Viewers", a_name()), "quite-another-1"
    client = Client(REMOTE_ADDR=an_address())
    client.force_login(person)
    data = {"old_password": "wrong", "new_password1": new, "new_password2": new}
    place = reverse("password_change")
    assert client.post(place, {**data, "old_password": PASSWORD}).status_code == 302
    change = ConfigurationChange.objects.get(kind="user", subject=str(person.pk))
    assert (change.actor, change.after) == (person.username, {"password": "set anew"})
    answers = [client.post(place, data) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert "TOO_MANY_LOGINS" in answers[-1].text
    failed = ConfigurationChange.every.filter(action="login-failed", name=person.username)
    assert failed.count() == 2
