"""Whoever changes people, roles or rules of groups is judged by what they may do at that moment."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db import transaction

from console.layout.access import Right, has, narrow
from console.models import Limit
from console.people import accounts, roles
from console.people.accounts import PersonProtectedError, Wanted
from integration.models import ConfigurationChange
from integration.store.sessions import raw_connection
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def role(name: str) -> Group:
    return Group.objects.get(name=name)


def wanted(name: str) -> Wanted:
    return Wanted(name="otto", email="", roles=(role(name),), systems=None, is_active=True)


def permission(right: Right) -> Permission:
    return Permission.objects.get(codename=right.permission.split(".")[1])


def change_person(by: User) -> None:
    accounts.store(User.objects.get(username="otto"), wanted("Operators"), by, "")


def change_role(by: User) -> None:
    viewers = role("Viewers")
    roles.change(viewers, frozenset(), by, "", seen=roles.stamp(viewers))


@pytest.fixture(params=[change_person, change_role])
def changed(request: pytest.FixtureRequest) -> Callable[[User], None]:
    """A change of a person or a role by somebody."""
    a_person("Viewers", "otto")
    change: Callable[[User], None] = request.param
    return change


class Directory(ModelBackend):
    """A backend by which rights come with the person it has loaded, as from an LDAP directory."""

    def get_all_permissions(self, user_obj: Any, obj: object = None) -> set[str]:
        return getattr(user_obj, "told", set())


def test_a_right_that_was_taken_meanwhile_does_not_count(changed: Callable[[User], None]) -> None:
    adam = a_person("Administrators", "adam")
    assert has(adam, Right.PEOPLE)
    role("Administrators").permissions.remove(permission(Right.PEOPLE))
    with pytest.raises(PermissionDenied):
        changed(adam)
    assert not ConfigurationChange.objects.exists()


def test_a_right_that_was_taken_meanwhile_cannot_be_given() -> None:
    adam, viewers = a_person("Administrators", "adam"), role("Viewers")
    assert has(adam, Right.REVEAL)
    assert adam.get_all_permissions()
    role("Administrators").permissions.remove(permission(Right.REVEAL))
    more = frozenset({Right.VIEW, Right.REVEAL})
    with pytest.raises(PersonProtectedError):
        roles.change(viewers, more, adam, "", seen=roles.stamp(viewers))
    assert roles.rights_of(role("Viewers")) == {Right.VIEW}


def test_who_was_limited_meanwhile_changes_nobody(changed: Callable[[User], None]) -> None:
    adam = a_person("Administrators", "adam")
    assert has(adam, Right.PEOPLE)
    Limit.objects.create(person=adam)
    with pytest.raises(PersonProtectedError):
        changed(adam)
    assert not ConfigurationChange.objects.exists()


def test_a_token_without_the_right_changes_nobody(changed: Callable[[User], None]) -> None:
    adam = a_person("Administrators", "adam")
    narrow(adam, [Right.VIEW.word])
    with pytest.raises(PermissionDenied):
        changed(adam)
    assert not ConfigurationChange.objects.exists()


def test_a_token_gives_no_right_that_it_does_not_have() -> None:
    adam, viewers = a_person("Administrators", "adam"), role("Viewers")
    narrow(adam, [Right.PEOPLE.word, Right.VIEW.word])
    more = frozenset({Right.VIEW, Right.REVEAL})
    with pytest.raises(PersonProtectedError):
        roles.change(viewers, more, adam, "", seen=roles.stamp(viewers))
    assert roles.rights_of(role("Viewers")) == {Right.VIEW}


def test_rights_that_come_with_the_person_count(
    changed: Callable[[User], None], settings: Any
) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.{Directory.__name__}"]
    adam: Any = a_person("", "adam")
    adam.told = {right.permission for right in Right}
    changed(adam)
    assert ConfigurationChange.objects.filter(actor="adam").exists()


@pytest.mark.django_db(transaction=True)
def test_who_changes_people_can_have_new_sessions_meanwhile() -> None:
    """A row that refers to an account asks for no more than this lock."""
    adam = a_person("Administrators", "adam")
    with transaction.atomic(), raw_connection("a login") as other, other.transaction():
        accounts.locked(adam)
        shared = f"SELECT id FROM auth_user WHERE id = {adam.pk} FOR KEY SHARE NOWAIT"
        assert other.execute(shared).fetchall() == [(adam.pk,)]
