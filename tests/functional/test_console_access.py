"""Every role against every address and method, taken from the table of addresses itself."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.test import Client, RequestFactory
from django.urls import resolve, reverse

from console.layout.access import ROLES, Right
from console.models import Limit
from devstack.servers import Servers
from integration.models import ExternalSystem
from tests.support.contents import content
from tests.support.every_page import (
    OWN,
    PUBLIC,
    Address,
    a_cluster_for_it,
    a_world,
    every_address,
    every_pattern,
)
from tests.support.rows import a_person

# Each goes through every address by every method.
pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(500)]

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
# No form sends by these. Who is let in asks each address by one of them, the next by the next.
OTHERS = ("head", "put", "options", "patch", "delete")
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


def ask(client: Client, method: str, path: str) -> Any:
    call: Callable[..., Any] = getattr(client, method)
    return call(path)


def asked_alone(person: User | AnonymousUser, method: str, path: str) -> int:
    """The status that the view of this address has for a person; 403 where it raises.

    It is found in the table of addresses and called with all that guards it, but without the
    session before it and the page after it: for a refusal these are the same everywhere.
    """
    request = RequestFactory().generic(method.upper(), path)
    request.user = person
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined] # as Django's test client
    found = resolve(path)
    try:
        return int(found.func(request, *found.args, **found.kwargs).status_code)
    except PermissionDenied:
        return 403


def addresses_of(role: str, world: dict[str, Any]) -> tuple[list[Address], list[Address]]:
    """The addresses that the role may ask for, and the others."""
    given = frozenset(ROLES.get(role, ()))
    every = [one for one in every_address(world) if one.name not in PUBLIC | OWN]
    open_to = [one for one in every if given.issuperset(one.rights or ())]
    return open_to, [one for one in every if one not in open_to]


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
        for method in ("get", "post"):
            answer = ask(Client(raise_request_exception=False), method, address.path)
            assert answer.status_code in {302, 405}, (address.name, method, answer.status_code)
            if answer.status_code == 302:
                assert answer["Location"].startswith(reverse("login")), address.name
        for method in METHODS:
            status = asked_alone(AnonymousUser(), method, address.path)
            assert status in {302, 405}, (address.name, method, status)
    assert content() == before


@pytest.mark.parametrize("role", ["", *ROLES])
def test_each_role_is_refused_what_it_may_not_do_by_every_method(
    world: dict[str, Any], role: str
) -> None:
    person, before = a_person(role), content()
    _, others = addresses_of(role, world)
    assert bool(others) is (role != "Administrators")
    for address in others:
        for method in METHODS:
            status = asked_alone(person, method, address.path)
            assert status in {403, 405}, (role, address.name, method, status)
    assert content() == before


def test_who_may_nothing_is_answered_with_the_page_that_says_so(world: dict[str, Any]) -> None:
    """One address of those that need the same rights; all of them were asked alone."""
    client, before = logged_in(""), content()
    _, others = addresses_of("", world)
    for address in {one.rights: one for one in others}.values():
        answer = ask(client, "get", address.path)
        assert answer.status_code in {403, 405}, (address.name, answer.status_code)
        assert answer.status_code == 405 or "You do not have the right to" in answer.text
    assert content() == before


@pytest.mark.parametrize("role", ["", "Viewers", "Operators", "Editors"])
def test_each_role_reaches_what_it_may(world: dict[str, Any], role: str) -> None:
    client = logged_in(role)
    for address in addresses_of(role, world)[0]:
        status = ask(client, "get", address.path).status_code
        assert status in HARMLESS, (role, address.name, status)


def test_a_method_that_no_form_uses_is_answered(world: dict[str, Any]) -> None:
    """What a viewer may ask for, a viewer asks for so below.

    By GET an administrator asks for every address in test_mounted_console.py.
    """
    client = logged_in("Administrators")
    for place, address in enumerate(addresses_of("Viewers", world)[1]):
        method = OTHERS[place % len(OTHERS)]
        status = ask(client, method, address.path).status_code
        assert status in HARMLESS, (address.name, method, status)


def posted_to(client: Client, addresses: list[Address]) -> tuple[list[Address], list[str]]:
    """Those of the addresses whose view refuses a POST by itself, and whose form is shown then."""
    refused, shown = [], []
    for address in addresses:
        status = ask(client, "post", address.path).status_code
        assert status in HARMLESS | {403}, (address.name, status)
        if status == 403:
            refused.append(address)
            seen = ask(client, "get", address.path).status_code
            if seen not in {403, 405} and address.name not in CHOOSING:
                shown.append(address.name)
    return refused, shown


def test_a_viewer_changes_nothing_by_any_post_and_is_shown_no_form_in_vain(
    world: dict[str, Any],
) -> None:
    client, before = logged_in("Viewers"), content()
    open_to, others = addresses_of("Viewers", world)
    assert posted_to(client, open_to)[1] == []
    for place, address in enumerate(open_to):
        method = OTHERS[place % len(OTHERS)]
        status = ask(client, method, address.path).status_code
        assert status in HARMLESS, (address.name, method, status)
    for address in others:
        status = ask(client, "post", address.path).status_code
        assert status in {403, 405}, (address.name, status)
    assert content() == before


def test_what_an_editor_may_not_send_is_not_shown_as_a_form_either(world: dict[str, Any]) -> None:
    open_to, _ = addresses_of("Editors", world)
    assert posted_to(logged_in("Editors"), open_to)[1] == []


def test_every_empty_post_of_an_administrator_is_answered(world: dict[str, Any]) -> None:
    """One who is limited to all systems there are is refused only what is shared."""
    every, _ = addresses_of("Administrators", world)
    limited = logged_in("Administrators")
    limit = Limit.objects.create(person_id=int(limited.session["_auth_user_id"]))
    limit.systems.set(ExternalSystem.objects.all())
    refused, shown = posted_to(limited, every)
    assert shown == []
    assert refused
    whole = logged_in("Administrators")
    for address in refused:
        status = ask(whole, "post", address.path).status_code
        assert status in HARMLESS, (address.name, status)


def test_a_post_without_the_forms_token_is_refused(world: dict[str, Any]) -> None:
    """Mostly before anybody asks who sent it: then no session would make a difference."""
    stranger = Client(enforce_csrf_checks=True, raise_request_exception=False)
    administrator = logged_in("Administrators", enforce_csrf_checks=True)
    before = content()
    for address in every_address(world):
        if address.name not in {"healthz", "readyz", "metrics"}:
            looks_itself = getattr(resolve(address.path).func, "csrf_exempt", False)
            client = administrator if looks_itself else stranger
            status = ask(client, "post", address.path).status_code
            assert status in {403, 405}, (address.name, status)
    assert content() == before


def test_no_right_is_left_without_a_role() -> None:
    assert {right for rights in ROLES.values() for right in rights} == set(Right)
