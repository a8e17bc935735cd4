"""The pages of roles: what each lets people do, and who may give and take which rights."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from psycopg.errors import LockNotAvailable

from console.layout.access import Right, has
from console.models import GroupRule, Limit
from console.people import roles
from console.people.accounts import PersonProtectedError
from integration.actions.errors import ChangedMeanwhileError
from integration.models import ConfigurationChange
from integration.store.sessions import raw_connection
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def logged_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def role(name: str) -> Group:
    return Group.objects.get(name=name)


def rights(name: str) -> frozenset[Right]:
    return roles.rights_of(role(name))


def permission(right: Right) -> Permission:
    return Permission.objects.get(codename=right.permission.split(".")[1])


def foreign() -> Permission:
    """What the project lets a role do, and Sluice does not ask for."""
    return Permission.objects.get(content_type__app_label="auth", codename="add_group")


def without(name: str, right: Right) -> None:
    role(name).permissions.remove(permission(right))


def saved(client: Client, name: str, *given: Right, **more: str) -> HttpResponse:
    """Save the form of a role with these boxes ticked, as a browser does."""
    place = reverse("role", args=[role(name).pk])
    seen = client.get(place).context["seen"]
    asked = {"rights": [right.word for right in given], "seen": seen, **more}
    return client.post(place, asked)


def as_read(who: User) -> User:
    """The person as a request finds them: rights are kept with the object."""
    return User.objects.get(pk=who.pk)


def test_each_role_is_told_with_what_it_lets_people_do() -> None:
    a_person("Editors", "eva")
    page = unescape(logged_in(a_person("Administrators")).get(reverse("roles")).text)
    lines = dict(re.findall(r'<a class="fw-bold long"[^>]*>([^<]+)</a>(.*?)</tr>', page, re.DOTALL))
    assert lines.keys() == {"Viewers", "Operators", "Editors", "Administrators"}
    for name, line in lines.items():
        told = {right for right in Right if f"<li>{right.words}</li>" in line}
        assert told == rights(name)
    assert 'data-label="People">1<' in lines["Editors"]


def test_rights_are_given_and_taken_with_one_row_of_audit_and_count_at_once() -> None:
    vera, adam = a_person("Viewers", "vera"), a_person("Administrators", "adam")
    client = logged_in(adam)
    wanted = (Right.VIEW, Right.OPERATE)
    assert saved(client, "Viewers", *wanted, reason="the night shift").status_code == 303
    assert rights("Viewers") == frozenset(wanted)
    assert has(as_read(vera), Right.OPERATE)
    [change] = ConfigurationChange.objects.all()
    assert (change.actor, change.kind, change.action) == ("adam", "group", "change")
    assert (change.name, change.reason) == ("Viewers", "the night shift")
    assert change.before == {"rights": ["view"]}
    assert change.after == {"rights": ["view", "operate"]}
    for page in (reverse("role", args=[role("Viewers").pk]), reverse("changes")):
        assert Right.OPERATE.words in client.get(page).text, "in words, not as a code"

    assert saved(client, "Viewers").status_code == 303
    assert rights("Viewers") == frozenset()
    assert not has(as_read(vera), Right.VIEW)
    assert saved(client, "Viewers").status_code == 303
    assert ConfigurationChange.objects.count() == 2, "nothing differed the third time"


def test_what_else_a_project_lets_a_role_do_stays() -> None:
    """Nothing of it is taken or given, whoever changes the role."""
    role("Viewers").permissions.add(foreign())
    adam = logged_in(a_person("Administrators"))
    assert saved(adam, "Viewers", Right.VIEW, Right.OPERATE).status_code == 303
    assert {*role("Viewers").permissions.all()} == {
        *(permission(right) for right in (Right.VIEW, Right.OPERATE)),
        foreign(),
    }
    assert saved(logged_in(User.objects.create_superuser("root")), "Viewers").status_code == 303
    assert [*role("Viewers").permissions.all()] == [foreign()]


def test_the_page_of_a_role_tells_of_what_it_does_not_show() -> None:
    role("Viewers").permissions.add(foreign())
    without("Administrators", Right.REVEAL)
    role("Editors").permissions.add(permission(Right.REVEAL))
    adam = logged_in(a_person("Administrators"))
    root = logged_in(User.objects.create_superuser("root"))
    for name, others, is_beyond in (
        ("Operators", 0, False),
        ("Editors", 0, True),
        ("Viewers", 1, True),
    ):
        place = reverse("role", args=[role(name).pk])
        for client, exceeds in ((adam, is_beyond), (root, False)):
            page = client.get(place)
            assert (page.context["others"], page.context["exceeds"]) == (others, exceeds)
            assert ('id="others"' in page.text) == bool(others)
            assert ('id="exceeds"' in page.text) == exceeds


def test_nobody_gives_or_takes_a_right_that_they_do_not_have() -> None:
    """After an upgrade a new right belongs to superusers alone."""
    without("Administrators", Right.REVEAL)
    keepers = Group.objects.create(name="Keepers")
    adam, root = a_person("Administrators"), User.objects.create_superuser("root")
    client = logged_in(adam)
    for name in ("Administrators", "Viewers"):
        answer = saved(client, name, *Right)
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == ["__all__"]
        assert Right.REVEAL not in rights(name)
    assert saved(logged_in(root), "Keepers", Right.REVEAL).status_code == 303
    page = client.get(reverse("role", args=[keepers.pk])).text
    assert re.findall(r'<input[^>]*value="(\w+)"[^>]* disabled', page) == ["reveal"]
    # A browser sends no box that is closed: that takes nothing away.
    assert saved(client, "Keepers", Right.VIEW).status_code == 303
    assert rights("Keepers") == {Right.VIEW, Right.REVEAL}


def test_nobody_takes_a_right_from_a_role_that_has_others_which_they_lack() -> None:
    """As with people: whoever has fewer rights changes nothing about who has more."""
    without("Administrators", Right.REVEAL)
    auditors, partners = (Group.objects.create(name=name) for name in ("Auditors", "Partners"))
    view, reveal = (permission(right) for right in (Right.VIEW, Right.REVEAL))
    auditors.permissions.add(view, reveal)
    partners.permissions.add(view, foreign())
    client = logged_in(a_person("Administrators"))
    for name in ("Auditors", "Partners"):
        before = rights(name)
        answer = saved(client, name, *(before - {Right.VIEW}))
        assert (answer.status_code, rights(name)) == (422, before)
        assert list(answer.context["form"].errors) == ["__all__"]
    root = logged_in(User.objects.create_superuser("root"))
    assert saved(root, "Auditors", Right.REVEAL).status_code == 303
    assert rights("Auditors") == {Right.REVEAL}


@pytest.mark.parametrize("right", [Right.PEOPLE, Right.CONFIGURE, Right.VIEW_PAYLOAD])
def test_nobody_takes_a_right_from_themselves(right: Right) -> None:
    """They could not give it back."""
    adam = a_person("Administrators")
    client, kept = logged_in(adam), frozenset(Right) - {right}
    assert saved(client, "Administrators", *kept).status_code == 422
    assert rights("Administrators") == frozenset(Right)
    assert not ConfigurationChange.objects.exists()
    spare = Group.objects.create(name="Spare")
    spare.permissions.add(permission(right))
    adam.groups.add(spare)
    assert saved(client, "Administrators", *kept).status_code == 303, "another role gives it"


def test_a_right_that_was_taken_meanwhile_does_not_count() -> None:
    adam, viewers = a_person("Administrators"), role("Viewers")
    assert has(adam, Right.PEOPLE)
    without("Administrators", Right.PEOPLE)
    with pytest.raises(PermissionDenied):
        roles.change(viewers, frozenset(), adam, "", seen=roles.stamp(viewers))
    assert rights("Viewers") == {Right.VIEW}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", ["auth_group WHERE name = 'Administrators'", "auth_user"])
def test_two_administrators_cannot_lock_each_other_out(held: str) -> None:
    """Whoever changes a role holds every role by which somebody manages people, and themselves."""
    adam, viewers = a_person("Administrators"), role("Viewers")
    with raw_connection("the other one") as other, other.transaction(), connection.cursor() as mine:
        other.execute(f"SELECT FROM {held} FOR NO KEY UPDATE")
        mine.execute("SET lock_timeout = '200ms'")
        try:
            with pytest.raises(OperationalError) as refused:
                roles.change(viewers, frozenset(), as_read(adam), "", seen=roles.stamp(viewers))
        finally:
            mine.execute("RESET lock_timeout")
    assert isinstance(refused.value.__cause__, LockNotAvailable)
    assert rights("Viewers") == {Right.VIEW}


def test_it_is_told_which_groups_give_a_role_and_whether_it_needs_a_second_factor(
    settings: Any,
) -> None:
    settings.SLUICE_SECOND_FACTOR_ROLES = ("Operators",)
    for group in ("/night-shift", "/day-shift"):
        GroupRule.objects.create(group=group, role=role("Operators"))
    client = logged_in(a_person("Administrators"))
    for name, groups in (("Operators", ["/day-shift", "/night-shift"]), ("Viewers", [])):
        page = client.get(reverse("role", args=[role(name).pk]))
        assert (page.context["groups"], page.context["needs_factor"]) == (groups, bool(groups))
        assert all(group in page.text for group in groups)


def test_an_old_form_does_not_give_back_what_a_newer_one_took() -> None:
    ann, carl = logged_in(a_person("Administrators")), logged_in(a_person("Administrators", "carl"))
    place = reverse("role", args=[role("Operators").pk])
    mine = {"rights": ["view", "operate", "view_payload"], "seen": ann.get(place).context["seen"]}
    assert saved(carl, "Operators", Right.VIEW, reason="they left").status_code == 303
    old = ann.post(place, mine)
    assert old.status_code == 409
    for told in ("carl", "they left", "Save mine"):
        assert told in old.text
    assert rights("Operators") == {Right.VIEW}
    assert ann.post(place, {**mine, "seen": ""}).status_code == 409
    assert ann.post(place, {**mine, "seen": old.context["seen"]}).status_code == 303
    assert rights("Operators") == {Right.VIEW, Right.OPERATE, Right.VIEW_PAYLOAD}


@pytest.mark.parametrize("who", ["Viewers", "Operators", "Editors"])
def test_whoever_may_not_manage_people_changes_no_role_by_any_way(who: str) -> None:
    person = a_person(who)
    client, viewers = logged_in(person), role("Viewers")
    place = reverse("role", args=[viewers.pk])
    assert client.get(reverse("roles")).status_code == 403
    assert client.get(place).status_code == 403
    asked = {"rights": [right.word for right in Right], "seen": roles.stamp(viewers)}
    assert client.post(place, asked).status_code == 403
    # The call itself refuses, whatever address would lead to it one day.
    with pytest.raises(PermissionDenied):
        roles.change(viewers, frozenset(Right), as_read(person), "", seen=roles.stamp(viewers))
    assert rights("Viewers") == {Right.VIEW}


def test_a_limited_administrator_changes_no_role() -> None:
    eva = a_person("Administrators")
    Limit.objects.create(person=eva)
    viewers = role("Viewers")
    for place in (reverse("roles"), reverse("role", args=[viewers.pk])):
        assert logged_in(eva).get(place).status_code == 403
    with pytest.raises(PersonProtectedError):
        roles.change(viewers, frozenset(), as_read(eva), "", seen=roles.stamp(viewers))
    assert rights("Viewers") == {Right.VIEW}


def test_a_role_that_is_gone_is_told() -> None:
    spare = Group.objects.create(name="Spare")
    adam, seen = a_person("Administrators"), roles.stamp(spare)
    number = spare.pk
    Group.objects.filter(pk=number).delete()
    with pytest.raises(ChangedMeanwhileError):
        roles.change(spare, frozenset(), as_read(adam), "", seen=seen)
    assert logged_in(adam).get(reverse("role", args=[number])).status_code == 404
