"""Changes of people, their ways in, roles and rules are judged by what their author may do then."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from psycopg.errors import LockNotAvailable

from console.layout.access import Right, has, narrow
from console.models import (
    CompanyIdentity,
    ConsoleSession,
    GroupRule,
    Limit,
    PersonalToken,
    SecondFactor,
)
from console.people import accounts, roles, taking
from console.people.accounts import PersonProtectedError, Wanted
from console.people.company import rules
from integration.actions.configuration import Author
from integration.models import ConfigurationChange, ExternalSystem
from integration.store.sessions import database_now, raw_connection
from tests.support.company_login import a_rule
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


def store_rule(by: User) -> None:
    rules.store(None, GroupRule(group="/new", role=role("Viewers")), (), by, "")


def delete_rule(by: User) -> None:
    rules.delete(GroupRule.objects.get(group="/ops"), by, "")


def revoke_token(by: User) -> None:
    otto = User.objects.get(username="otto")
    taking.token(otto, PersonalToken.objects.get(person=otto), by, "")


def remove_factors(by: User) -> None:
    taking.second_factors(User.objects.get(username="otto"), by, "")


def disconnect(by: User) -> None:
    taking.company_login(User.objects.get(username="otto"), by, "")


def end_sessions(by: User) -> None:
    taking.all_sessions(User.objects.get(username="otto"), by, but=None)


TAKING = (revoke_token, remove_factors, disconnect)
# The row of audit of ended sessions tells of an address, which the page knows.
WAYS = (*TAKING, end_sessions)


def ways_in(otto: User) -> None:
    """One of every kind; as rows, so that no audit tells of them."""
    now = database_now()
    later = timezone.now() + timedelta(days=1)
    PersonalToken.objects.create(
        person=otto, name="nightly", prefix="p", token_hash="h", created_at=now, expires_at=later
    )
    SecondFactor.objects.create(
        person=otto, kind=SecondFactor.Kind.PASSKEY, name="key", data={"key": "k"}, created_at=now
    )
    CompanyIdentity.objects.create(person=otto, issuer="https://id", subject="otto", seen_at=now)
    ConsoleSession.objects.create(person=otto, session_key="k", began_at=now, seen_at=now)


def has_every_way_in(otto: User) -> bool:
    token = PersonalToken.objects.filter(person=otto, revoked_at=None)
    rest = (SecondFactor, CompanyIdentity, ConsoleSession)
    return token.exists() and all(model.objects.filter(person=otto).exists() for model in rest)


@pytest.fixture(params=[change_person, change_role, store_rule, delete_rule, *TAKING])
def changed(request: pytest.FixtureRequest) -> Callable[[User], None]:
    """A change of a person, of their ways in, of a role or a rule by somebody."""
    ways_in(a_person("Viewers", "otto"))
    a_rule("/ops", "Operators")
    change: Callable[[User], None] = request.param
    return change


class Directory(ModelBackend):
    """A backend by which rights come with the person it has loaded, as from an LDAP directory."""

    def get_all_permissions(self, user_obj: Any, obj: object = None) -> set[str]:
        return getattr(user_obj, "told", set())


def by_the_company(person: User, *groups: str) -> None:
    """The person has come by the company login, in these groups."""
    identity = CompanyIdentity.objects.create(
        person=person, issuer="https://id", subject=person.username, seen_at=database_now()
    )
    rules.apply(identity, groups, Author(person.username, ""))


def test_a_right_that_was_taken_meanwhile_does_not_count(changed: Callable[[User], None]) -> None:
    adam = a_person("Administrators", "adam")
    assert has(adam, Right.PEOPLE)
    role("Administrators").permissions.remove(permission(Right.PEOPLE))
    with pytest.raises(PermissionDenied):
        changed(adam)
    assert not ConfigurationChange.objects.exists()


@pytest.mark.parametrize("take", WAYS)
def test_ways_in_of_who_was_raised_meanwhile_are_not_taken(take: Callable[[User], None]) -> None:
    """Otto as the page has loaded him had no more rights than Clara."""
    clerks = Group.objects.create(name="Clerks")
    clerks.permissions.set([permission(Right.PEOPLE), permission(Right.VIEW)])
    clara, otto = a_person("Clerks", "clara"), a_person("Viewers", "otto")
    ways_in(otto)
    assert has(clara, Right.PEOPLE)
    otto.groups.add(role("Administrators"))
    with pytest.raises(PersonProtectedError):
        take(clara)
    assert has_every_way_in(otto)


def limit(person: User) -> None:
    Limit.objects.create(person=person)


def take_role(person: User) -> None:
    person.groups.clear()


def switch_off(person: User) -> None:
    User.objects.filter(pk=person.pk).update(is_active=False)


@pytest.mark.parametrize(
    ("lose", "refused"),
    [(take_role, PermissionDenied), (switch_off, PermissionDenied), (limit, PersonProtectedError)],
)
def test_who_may_not_manage_people_any_more_ends_nobodys_sessions(
    lose: Callable[[User], None], refused: type[Exception]
) -> None:
    adam, otto = a_person("Administrators", "adam"), a_person("Viewers", "otto")
    ways_in(otto)
    assert has(adam, Right.PEOPLE)
    lose(adam)
    with pytest.raises(refused):
        end_sessions(adam)
    assert has_every_way_in(otto)


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
@pytest.mark.parametrize("take", WAYS)
@pytest.mark.parametrize("held", ["adam", "otto"])
def test_who_takes_ways_in_waits_for_changes_of_either(
    take: Callable[[User], None], held: str
) -> None:
    people = {name: a_person("Administrators", name) for name in ("adam", "otto")}
    ways_in(people["otto"])
    row = f"SELECT FROM auth_user WHERE id = {people[held].pk} FOR NO KEY UPDATE"
    with raw_connection("the other one") as other, other.transaction(), connection.cursor() as mine:
        other.execute(row)
        mine.execute("SET lock_timeout = '200ms'")
        try:
            with pytest.raises(OperationalError) as refused:
                take(people["adam"])
        finally:
            mine.execute("RESET lock_timeout")
    assert isinstance(refused.value.__cause__, LockNotAvailable)
    assert has_every_way_in(people["otto"])


@pytest.mark.django_db(transaction=True)
def test_who_changes_people_can_have_new_sessions_meanwhile() -> None:
    """A row that refers to an account asks for no more than this lock."""
    adam = a_person("Administrators", "adam")
    with transaction.atomic(), raw_connection("a login") as other, other.transaction():
        accounts.locked(adam)
        shared = f"SELECT id FROM auth_user WHERE id = {adam.pk} FOR KEY SHARE NOWAIT"
        assert other.execute(shared).fetchall() == [(adam.pk,)]


def test_nobody_removes_the_rule_by_which_they_manage_people() -> None:
    adam, rule = a_person("", "adam"), a_rule("/board", "Administrators")
    by_the_company(adam, "/board")
    with pytest.raises(PersonProtectedError):
        rules.delete(rule, User.objects.get(pk=adam.pk), "")
    lower = GroupRule(pk=rule.pk, group="/board", role=role("Viewers"))
    with pytest.raises(PersonProtectedError):
        rules.store(rule, lower, (), User.objects.get(pk=adam.pk), "")
    assert [group.name for group in adam.groups.all()] == ["Administrators"]
    assert GroupRule.objects.get().role == role("Administrators")
    adam.groups.add(Group.objects.create(name="Spare"))
    role("Spare").permissions.set(role("Administrators").permissions.all())
    assert rules.delete(rule, User.objects.get(pk=adam.pk), ""), "another role gives it"
    assert [group.name for group in adam.groups.all()] == ["Spare"]


def test_nobody_limits_themselves_by_a_rule() -> None:
    adam = a_person("Administrators", "adam")
    by_the_company(adam, "/board")
    limiting = GroupRule(group="/board", role=role("Viewers"), is_limited=True)
    systems = [ExternalSystem.objects.create(name="eam")]
    with pytest.raises(PersonProtectedError):
        rules.store(None, limiting, systems, User.objects.get(pk=adam.pk), "")
    assert not GroupRule.objects.exists()
    assert not Limit.objects.exists()


def test_a_rule_is_judged_by_the_role_that_it_has_by_now() -> None:
    clerks = Group.objects.create(name="Clerks")
    clerks.permissions.set([permission(Right.PEOPLE), permission(Right.VIEW)])
    clara, rule = a_person("Clerks", "clara"), a_rule("/board", "Viewers")
    GroupRule.objects.update(role=role("Administrators"))
    with pytest.raises(PersonProtectedError):
        rules.delete(rule, clara, "")
    assert GroupRule.objects.exists()


def test_a_rule_that_is_gone_meanwhile_is_not_removed_again() -> None:
    adam, rule = a_person("Administrators", "adam"), a_rule("/board", "Viewers")
    GroupRule.objects.all().delete()
    assert not rules.delete(rule, adam, "")
    assert not ConfigurationChange.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", ["console_grouprule", "auth_user"])
def test_two_administrators_cannot_remove_each_others_rules(held: str) -> None:
    """Whoever changes a rule holds every rule, and everybody for whom the rules are."""
    adam, otto = a_person("Administrators", "adam"), a_person("", "otto")
    rule, other_rule = a_rule("/board", "Administrators"), a_rule("/ops", "Operators")
    by_the_company(otto, "/board")
    number = other_rule.pk if held == "console_grouprule" else otto.pk
    with raw_connection("the other one") as other, other.transaction(), connection.cursor() as mine:
        other.execute(f"SELECT FROM {held} WHERE id = {number} FOR NO KEY UPDATE")
        mine.execute("SET lock_timeout = '200ms'")
        try:
            with pytest.raises(OperationalError) as refused:
                rules.delete(rule, adam, "")
        finally:
            mine.execute("RESET lock_timeout")
    assert isinstance(refused.value.__cause__, LockNotAvailable)
    assert GroupRule.objects.filter(pk=rule.pk).exists()
