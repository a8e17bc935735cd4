"""The page of people: accounts, roles and limits, each change with one row of audit."""

import io
import re
import shlex
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from psycopg.errors import LockNotAvailable

from console.layout.access import Right, has
from console.models import Limit
from console.people import accounts
from console.people.recent import CONFIRMED
from console.people.session_limits import BEGAN
from integration.actions.errors import ChangedMeanwhileError
from integration.models import ConfigurationChange, ExternalSystem
from integration.store.sessions import raw_connection
from tests.support.rows import PASSWORD, a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ROOT = Path(__file__).resolve().parents[2]
# A field for passwords that takes none.
CLOSED = re.compile(r'<input[^>]*name="password"[^>]* disabled')


def administrator(name: str = "adam") -> Client:
    client = Client()
    client.force_login(a_person("Administrators", name))
    return client


def role(name: str) -> int:
    return Group.objects.get(name=name).pk


def test_an_account_is_made_with_a_password_that_is_shown_once() -> None:
    system = ExternalSystem.objects.create(name="erp")
    answer = administrator().post(
        reverse("add-person"),
        {
            "username": "olga",
            "is_active": "on",
            "roles": [role("Operators")],
            "is_limited": "on",
            "systems": [system.pk],
            "why": "new in the team",
        },
    )
    password = re.search(r"<code[^>]*>([^<]+)</code>", answer.text)
    assert password is not None
    olga = User.objects.get(username="olga")
    assert olga.check_password(password[1])
    assert [*olga.sluice_limit.systems.all()] == [system]
    [change] = ConfigurationChange.objects.all()
    assert (change.actor, change.action, change.name) == ("adam", "create", "olga")
    assert change.after == {
        "name": "olga",
        "email": "",
        "roles": ["Operators"],
        "systems": ["erp"],
        "active": True,
        "password": "set",
    }
    assert change.reason == "new in the team"
    assert password[1] not in str(change.__dict__)


def test_roles_and_limits_are_changed_and_told_before_and_after() -> None:
    otto = a_person("Viewers", "otto")
    otto.sluice_limit = Limit.objects.create(person=otto)
    data = {"username": "otto", "is_active": "on", "roles": [role("Editors")], "password": ""}
    answer = administrator().post(
        reverse("person", args=[otto.pk]), {**data, "seen": accounts.stamp(otto)}
    )
    assert answer.status_code == 303
    [change] = ConfigurationChange.objects.all()
    assert change.before == {"roles": ["Viewers"], "systems": []}
    assert change.after == {"roles": ["Editors"], "systems": "all"}
    assert Client().login(username="otto", password=PASSWORD), "the password stayed"


def test_a_new_password_ends_the_sessions_of_that_person() -> None:
    otto = a_person("Viewers", "otto")
    his = Client()
    his.force_login(otto)
    data = {"username": "otto", "is_active": "on", "roles": [role("Viewers")]}
    data["seen"] = accounts.stamp(otto)
    place = reverse("person", args=[otto.pk])
    administrator().post(place, {**data, "password": "quite-another-1"})
    assert his.get(reverse("overview")).status_code == 302
    [change] = ConfigurationChange.objects.all()
    assert change.after == {"password": "set anew"}


def test_ones_own_password_is_not_set_without_the_old_one() -> None:
    client = administrator("ann")
    ann = User.objects.get(username="ann")
    place = reverse("person", args=[ann.pk])
    page = client.get(place)
    data = {"username": "ann", "is_active": "on", "roles": [role("Administrators")]}
    data["seen"] = page.context["seen"]
    answer = client.post(place, {**data, "password": "quite-another-1"})
    assert answer.status_code == 422
    for told in (page, answer):
        assert f'href="{reverse("password_change")}"' in told.text
        assert CLOSED.search(told.text)
    ann.refresh_from_db()
    assert ann.check_password(PASSWORD)
    assert client.post(place, {**data, "email": "ann@erp.example"}).status_code == 303


def test_who_has_no_password_yet_gives_themselves_one() -> None:
    client = administrator("ann")
    ann = User.objects.get(username="ann")
    ann.set_unusable_password()
    ann.save()
    client.force_login(ann)
    data = {"username": "ann", "is_active": "on", "roles": [role("Administrators")]}
    data |= {"seen": accounts.stamp(ann), "password": "quite-another-1"}
    assert client.post(reverse("person", args=[ann.pk]), data).status_code == 303
    assert Client().login(username="ann", password="quite-another-1")


def test_a_password_or_a_new_person_asks_for_a_login_that_is_recent() -> None:
    otto, client = a_person("Viewers", "otto"), administrator()
    session = client.session
    session[BEGAN] = int(time.time() - 1_801)
    session.save()
    confirming, new = reverse("confirm"), reverse("add-person")
    for answer in (client.get(new), client.post(new, {"username": "olga", "is_active": "on"})):
        assert answer["Location"] == f"{confirming}?next={quote(new, safe='')}"
    assert not User.objects.filter(username="olga").exists()

    place = reverse("person", args=[otto.pk])
    page = client.get(place)
    data = {"username": "otto", "is_active": "on", "email": "otto@erp.example"}
    data["seen"] = page.context["seen"]
    answer = client.post(place, {**data, "password": "taken-over-1"})
    assert answer.status_code == 422
    assert "otto@erp.example" in answer.text, "what was typed is kept"
    for told in (page, answer):
        assert f'href="{confirming}?next={quote(place, safe="")}"' in told.text
        assert CLOSED.search(told.text)
    otto.refresh_from_db()
    assert otto.check_password(PASSWORD)
    assert client.post(place, data).status_code == 303, "the rest asks for no login"

    session = client.session
    session[CONFIRMED] = int(time.time())
    session.save()
    data |= {"seen": client.get(place).context["seen"], "password": "given-anew-1"}
    assert client.post(place, data).status_code == 303
    assert client.get(new).status_code == 200


def test_an_old_form_does_not_give_back_what_a_newer_one_took() -> None:
    bob, ann, carl = a_person("Operators", "bob"), administrator("ann"), administrator("carl")
    place, system = reverse("person", args=[bob.pk]), ExternalSystem.objects.create(name="erp")
    known = {
        "username": "bob",
        "roles": [role("Operators")],
        "seen": ann.get(place).context["seen"],
    }
    limit = {"is_limited": "on", "systems": [system.pk], "why": "he has left"}
    assert carl.post(place, {**known, **limit}).status_code == 303
    mine = {**known, "is_active": "on", "email": "bob@erp.example"}
    old = ann.post(place, mine)
    assert old.status_code == 409
    for told in ("changed by somebody else", "carl", "he has left", "bob@erp.example", "Save mine"):
        assert told in old.text
    bob.refresh_from_db()
    assert (bob.is_active, bob.email) == (False, "")
    assert [*bob.sluice_limit.systems.all()] == [system]
    assert ann.post(place, {**mine, "seen": "", "is_active": ""}).status_code == 409
    assert ann.post(place, {**mine, "seen": old.context["seen"]}).status_code == 303
    bob.refresh_from_db()
    assert (bob.is_active, bob.email) == (True, "bob@erp.example")


def test_a_password_that_is_too_short_is_told_beside_its_field() -> None:
    answer = administrator().post(
        reverse("add-person"), {"username": "olga", "is_active": "on", "password": "short"}
    )
    assert answer.status_code == 422
    assert answer.context["form"].has_error("password", "password_too_short")
    assert not User.objects.filter(username="olga").exists()


def test_ticked_systems_without_the_limit_are_asked_about_and_nobody_sees_too_much() -> None:
    system = ExternalSystem.objects.create(name="depot")
    form = {"username": "olga", "is_active": "on", "roles": [role("Operators")]}
    answer = administrator().post(reverse("add-person"), {**form, "systems": [system.pk]})
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["systems"]
    assert not User.objects.filter(username="olga").exists()


def test_nobody_takes_the_right_to_manage_people_from_themselves() -> None:
    client = administrator("adam")
    adam = User.objects.get(username="adam")
    for change in (
        {"roles": [role("Viewers")], "is_active": "on"},
        {"roles": [role("Administrators")]},
        {"roles": [role("Administrators")], "is_active": "on", "is_limited": "on"},
    ):
        answer = client.post(reverse("person", args=[adam.pk]), {"username": "adam", **change})
        assert answer.status_code == 422
        assert "you could not undo it" in answer.text
    adam.refresh_from_db()
    assert adam.is_active
    assert not ConfigurationChange.objects.exists()


def test_a_permission_of_the_projects_is_not_mistaken_for_the_right_of_its_name() -> None:
    client, own = administrator("adam"), Group.objects.create(name="Own")
    its = ContentType.objects.get_for_model(Group)
    own.permissions.create(content_type=its, codename="manage_people", name="Its own")
    adam = User.objects.get(username="adam")
    adam.groups.add(own)
    place = reverse("person", args=[adam.pk])
    page = client.get(place)
    assert "Own: may do nothing yet" in page.text
    asked = {"username": "adam", "is_active": "on", "roles": [own.pk], "seen": page.context["seen"]}
    assert client.post(place, asked).status_code == 422
    assert has(User.objects.get(pk=adam.pk), Right.PEOPLE)


def of_role(name: str) -> accounts.Wanted:
    return accounts.Wanted(
        name="otto",
        email="",
        roles=(Group.objects.get(name=name),),
        systems=None,
        is_active=True,
    )


def test_a_right_that_was_taken_meanwhile_does_not_count() -> None:
    otto, adam = a_person("Administrators", "otto"), a_person("Administrators", "adam")
    assert has(adam, Right.PEOPLE)
    User.objects.get(username="adam").groups.clear()
    for known in (otto, None):
        with pytest.raises(PermissionDenied):
            accounts.store(known, of_role("Viewers"), adam, "")
    assert [group.name for group in otto.groups.all()] == ["Administrators"]


def test_two_superusers_cannot_lock_each_other_out() -> None:
    root, toor = (User.objects.create_superuser(name) for name in ("root", "toor"))
    User.objects.filter(pk=toor.pk).update(is_active=False)
    off = replace(of_role("Viewers"), name="root", is_active=False)
    with pytest.raises(PermissionDenied):
        accounts.store(root, off, toor, "")
    root.refresh_from_db()
    assert root.is_active


@pytest.mark.django_db(transaction=True)
def test_two_administrators_cannot_lock_each_other_out() -> None:
    """Whoever changes somebody holds that account and their own, in one order."""
    adam, otto = a_person("Administrators", "adam"), a_person("Administrators", "otto")
    held = f"SELECT FROM auth_user WHERE id = {adam.pk} FOR NO KEY UPDATE"
    with raw_connection("the other one") as other, other.transaction(), connection.cursor() as mine:
        other.execute(held)
        mine.execute("SET lock_timeout = '200ms'")
        try:
            with pytest.raises(OperationalError) as refused:
                accounts.store(otto, of_role("Viewers"), adam, "")
        finally:
            mine.execute("RESET lock_timeout")
    assert isinstance(refused.value.__cause__, LockNotAvailable)
    assert [group.name for group in otto.groups.all()] == ["Administrators"]


def test_who_is_gone_meanwhile_is_told() -> None:
    adam, otto = a_person("Administrators", "adam"), a_person("Viewers", "otto")
    User.objects.filter(pk=otto.pk).delete()
    with pytest.raises(ChangedMeanwhileError):
        accounts.store(otto, of_role("Viewers"), adam, "")


def test_a_superuser_is_changed_by_superusers_only() -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    answer = administrator().post(
        reverse("person", args=[root.pk]),
        {"username": "root", "is_active": "on", "password": "taken-over-1"},
    )
    assert answer.status_code == 422
    assert "whom only a superuser may change" in answer.text
    root.refresh_from_db()
    assert root.check_password(PASSWORD)


def test_nobody_gives_rights_that_they_do_not_have() -> None:
    clerks = Group.objects.create(name="Clerks")
    clerks.permissions.set(
        Permission.objects.filter(codename__in=["manage_people", "view_messageerror"])
    )
    client = Client()
    clara = a_person("Clerks", "clara")
    client.force_login(clara)
    own = {"username": "clara", "is_active": "on"}
    more = {"roles": [clerks.pk, role("Administrators")]}
    new = {"username": "nora", "is_active": "on", "roles": [role("Operators")]}
    assert client.post(reverse("person", args=[clara.pk]), {**own, **more}).status_code == 422
    assert client.post(reverse("add-person"), new).status_code == 422
    assert not clara.groups.filter(name="Administrators").exists()

    adam = a_person("Administrators", "adam")
    for change in ({"password": "taken-over-1", "is_active": "on"}, {}):
        asked = {"username": "adam", "roles": [clerks.pk], **change}
        assert client.post(reverse("person", args=[adam.pk]), asked).status_code == 422
    adam.is_active = False
    adam.save()
    asked = {"username": "adam", "roles": [clerks.pk], "password": "taken-over-1"}
    assert client.post(reverse("person", args=[adam.pk]), asked).status_code == 422
    adam.refresh_from_db()
    assert adam.check_password(PASSWORD)
    assert not ConfigurationChange.objects.exists()

    fewer = {**new, "roles": [role("Viewers")]}
    assert client.post(reverse("add-person"), fewer).status_code == 200
    assert User.objects.filter(username="nora").exists()


def test_after_an_upgrade_a_role_gets_the_right_to_reveal_as_documented() -> None:
    role = Group.objects.get(name="Administrators")
    role.permissions.remove(Permission.objects.get(codename="reveal_payload"))
    accounts.make_roles()
    anna = a_person("Administrators", "anna")
    assert not has(User.objects.get(pk=anna.pk), Right.REVEAL)
    text = (ROOT / "docs/masking.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^python manage\.py (give_right .+)$", text, re.MULTILINE)
    out = io.StringIO()
    call_command(*shlex.split(line), stdout=out)
    assert "Administrators may now reveal masked values" in out.getvalue()
    assert has(User.objects.get(pk=anna.pk), Right.REVEAL)
    [change] = ConfigurationChange.objects.filter(kind="group")
    assert (change.name, change.reason) == ("Administrators", "masking is set up")
    assert "reveal" in (change.after or {})["rights"]
    assert "reveal" not in (change.before or {})["rights"]
    assert "role" in administrator().get(reverse("changes")).text
    call_command(*shlex.split(line), stdout=out)
    assert "already; nothing was changed." in out.getvalue()
    assert ConfigurationChange.objects.filter(kind="group").count() == 1


def test_a_right_is_given_to_no_role_that_there_is_not() -> None:
    with pytest.raises(CommandError, match=r"ROLE_UNKNOWN.*Name one of these.*Administrators"):
        call_command("give_right", "administrators", "reveal", "--reason", "a wrong name")
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("give_right", "Administrators", "everything", "--reason", "a wrong right")
    assert not ConfigurationChange.objects.exists()


def test_a_limited_administrator_manages_nobody() -> None:
    eva = a_person("Administrators", "eva")
    Limit.objects.create(person=eva)
    client = Client()
    client.force_login(eva)
    for name in ("people", "add-person"):
        assert client.get(reverse(name)).status_code == 403


def test_everybody_sees_what_they_may_do_and_changes_their_own_password() -> None:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    page = client.get(reverse("account")).text
    assert "You may release, hold, delete, restore, pause and resume." in page
    assert "You may not edit the payload of a held message." in page
    answer = client.post(
        reverse("password_change"),
        {
            "old_password": PASSWORD,
            "new_password1": "better-by-far-2",
            "new_password2": "better-by-far-2",
        },
    )
    assert answer.status_code == 302
    assert Client().login(username="otto", password="better-by-far-2")
