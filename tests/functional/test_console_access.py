"""Every role against every address and method, taken from the table of addresses itself."""

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.urls import reverse

from console.layout.access import ROLES, Right
from console.models import Limit
from devstack.servers import Servers
from integration.models import ExternalSystem
from tests.support.every_page import (
    OWN,
    PUBLIC,
    a_cluster_for_it,
    a_world,
    every_address,
    every_pattern,
)
from tests.support.rows import a_person

# Each goes through every address by every method.
pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(500)]

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
# No view knows these by name: of them, each address is asked by one, the next address by the next.
UNKNOWN = ("put", "patch", "delete")
# What a session or a login leaves behind is no change of what Sluice does.
UNCOUNTED = frozenset({"django_session", "auth_user", "django_migrations"})
# In a wizard people choose what is there; where they may not add, its form is closed and says why.
CHOOSING = frozenset({"partner-new", "partner-step"})
HARMLESS = frozenset({200, 204, 301, 302, 303, 304, 400, 404, 405, 409, 413, 415, 422, 503})


@pytest.fixture
def world(servers: Servers) -> dict[str, Any]:
    a_cluster_for_it(servers.kafka_bootstrap)
    return a_world()


def logged_in(role: str, **client: Any) -> Client:
    found = Client(raise_request_exception=False, **client)
    found.force_login(a_person(role))
    return found


def content() -> dict[str, str]:
    """A digest of every table, by name."""
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    found = {}
    with connection.cursor() as cursor:
        for table in sorted(tables - UNCOUNTED):
            # That somebody looked, or was refused, is noted, and no change either.
            only = "WHERE NOT is_access" if table == "integration_configurationchange" else ""
            rows = f"SELECT string_agg(t::text, '|' ORDER BY t::text) AS text FROM {table} t {only}"
            cursor.execute(f"SELECT coalesce(md5(text), '') FROM ({rows}) AS every")
            found[table] = cursor.fetchone()[0]
    return found


def ask(client: Client, method: str, path: str) -> Any:
    call: Callable[..., Any] = getattr(client, method)
    return call(path)


def test_every_view_says_which_rights_it_needs(world: dict[str, Any]) -> None:
    silent = {
        address.name
        for address in every_address(world)
        if address.rights is None and address.name not in PUBLIC | OWN
    }
    assert silent == set()
    named = {pattern.name for pattern in every_pattern()}
    assert named >= OWN | {"login", "logout", "healthz"}, "the lists above are of this table"


def test_strangers_are_sent_to_the_login(world: dict[str, Any]) -> None:
    before = content()
    for address in every_address(world):
        if address.name in PUBLIC:
            continue
        for method in METHODS:
            answer = ask(Client(raise_request_exception=False), method, address.path)
            assert answer.status_code in {302, 405}, (address.name, method, answer.status_code)
            if answer.status_code == 302:
                assert answer["Location"].startswith(reverse("login")), address.name
    assert content() == before


def methods_of(role: str, place: int) -> tuple[str, ...]:
    """Who may nothing and who may everything ask by all methods, those in between by two."""
    unknown = UNKNOWN[(place + len(role)) % len(UNKNOWN)]
    all_or_none = role in {"", "Administrators"}
    return ("get", "head", "options", unknown) if all_or_none else ("get", unknown)


@pytest.mark.parametrize("role", ["", *ROLES])
def test_each_role_reaches_what_it_may_and_nothing_else(world: dict[str, Any], role: str) -> None:
    given = frozenset(ROLES.get(role, ()))
    client = logged_in(role)
    for place, address in enumerate(every_address(world)):
        if address.name in PUBLIC | OWN:
            continue
        may = given.issuperset(address.rights or ())
        for method in methods_of(role, place):
            status = ask(client, method, address.path).status_code
            allowed = HARMLESS if may else {403, 405}
            assert status in allowed, (role, address.name, method, status)


@pytest.mark.parametrize("role", ["", *ROLES])
def test_a_post_without_the_right_is_refused_and_changes_nothing(
    world: dict[str, Any], role: str
) -> None:
    given = frozenset(ROLES.get(role, ()))
    client = logged_in(role)
    before = content()
    for address in every_address(world):
        if address.name in PUBLIC | OWN or given.issuperset(address.rights or ()):
            continue
        status = ask(client, "post", address.path).status_code
        assert status in {403, 405}, (role, address.name, status)
    assert content() == before


def test_a_viewer_changes_nothing_by_any_post(world: dict[str, Any]) -> None:
    client = logged_in("Viewers")
    before = content()
    for address in every_address(world):
        if address.name in PUBLIC | OWN:
            continue
        status = ask(client, "post", address.path).status_code
        assert status in HARMLESS | {403}, (address.name, status)
    assert content() == before


def test_every_empty_post_of_an_administrator_is_answered(world: dict[str, Any]) -> None:
    client = logged_in("Administrators")
    for address in every_address(world):
        if address.name in PUBLIC | OWN:
            continue
        status = ask(client, "post", address.path).status_code
        assert status in HARMLESS, (address.name, status)


def test_a_post_without_the_forms_token_is_refused(world: dict[str, Any]) -> None:
    client = logged_in("Administrators", enforce_csrf_checks=True)
    before = content()
    for address in every_address(world):
        if address.name not in {"healthz", "readyz", "metrics"}:
            status = ask(client, "post", address.path).status_code
            assert status in {403, 405}, (address.name, status)
    assert content() == before


def test_no_right_is_left_without_a_role() -> None:
    assert {right for rights in ROLES.values() for right in rights} == set(Right)


@pytest.mark.parametrize("role", ["Viewers", "Editors", "limited"])
def test_what_may_not_be_sent_is_not_shown_as_a_form_either(
    world: dict[str, Any], role: str
) -> None:
    client = logged_in("Administrators" if role == "limited" else role)
    if role == "limited":
        limit = Limit.objects.create(person_id=int(client.session["_auth_user_id"]))
        limit.systems.set(ExternalSystem.objects.all())
    shown = []
    given = frozenset(ROLES["Administrators" if role == "limited" else role])
    for address in every_address(world):
        # Where the view itself asks for a right, one that lacks it is refused by each method.
        if address.name in PUBLIC | OWN or not given.issuperset(address.rights or ()):
            continue
        if ask(client, "post", address.path).status_code == 403:
            seen = ask(client, "get", address.path)
            if seen.status_code not in {403, 405} and address.name not in CHOOSING:
                shown.append((address.name, seen.status_code))
    assert shown == []
