"""Rules for groups of the company login: written by those who may, applied to all at once."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from console.layout.access import Right
from console.models import CompanyIdentity, GroupRule, Limit
from console.people import accounts
from console.people.company import rules
from integration.models import ConfigurationChange, ExternalSystem
from tests.support.company_login import a_rule, systems_of
from tests.support.identity_provider import IdentityProvider, logged_in_by
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def logged_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def roles_of(name: str) -> set[str]:
    return {group.name for group in User.objects.get(username=name).groups.all()}


def asked(group: str, role: str, **more: Any) -> dict[str, Any]:
    return {"group": group, "role": Group.objects.get(name=role).pk, **more}


def test_a_rule_is_written_changed_and_removed_and_each_counts_at_once(
    idp: IdentityProvider,
) -> None:
    client = logged_in(a_person("Administrators", "adam"))
    eam = ExternalSystem.objects.create(name="eam")
    logged_in_by(Client())
    added = asked("/cafeteria", "Editors", is_limited="on", systems=[eam.pk], reason="they cook")
    assert client.post(reverse("company-group-new"), added).status_code == 303
    assert roles_of("olga") == {"Operators", "Editors"}
    assert systems_of("olga") == {"eam"}
    rule = GroupRule.objects.get(group="/cafeteria")
    place = reverse("company-group", args=[rule.pk])
    viewers = asked("/cafeteria", "Viewers", seen=rules.stamp(rule))
    assert client.post(place, viewers).status_code == 303
    assert roles_of("olga") == {"Operators", "Viewers"}
    assert systems_of("olga") is None
    client.post(reverse("company-group-delete", args=[rule.pk]), {"reason": "closed"})
    assert roles_of("olga") == {"Operators"}
    changes = ConfigurationChange.objects.filter(kind="grouprule").order_by("pk")
    assert [(row.action, row.actor, row.reason) for row in changes] == [
        ("create", "adam", "they cook"),
        ("change", "adam", ""),
        ("delete", "adam", "closed"),
    ]
    assert changes[0].after == {"group": "/cafeteria", "role": "Editors", "systems": ["eam"]}
    assert "they cook" in client.get(reverse("changes")).text
    again = client.post(reverse("company-group-delete", args=[rule.pk]), follow=True)
    assert "was removed already" in again.text


def test_a_changed_rule_counts_for_every_group_however_many_somebody_has(
    idp: IdentityProvider,
) -> None:
    a_rule("/z-limited", "Viewers", ExternalSystem.objects.create(name="eam"))
    idp.claims["groups"] = ["/ops", "/z-limited", *(f"/team-{n:03}" for n in range(998))]
    logged_in_by(Client())
    client = logged_in(a_person("Administrators", "adam"))
    client.post(reverse("company-group-new"), asked("/elsewhere", "Editors"))
    assert roles_of("olga") == {"Operators", "Viewers"}
    assert systems_of("olga") == {"eam"}
    idp.claims["groups"].append("/one-more")
    answer = logged_in_by(Client())
    assert answer.status_code == 403
    assert "IDENTITY_TOO_MANY_GROUPS" in answer.text


def test_a_changed_rule_counts_for_the_groups_of_a_login_that_was_faster(
    idp: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged_in_by(Client())
    client = logged_in(a_person("Administrators", "adam"))
    locked = accounts.locked

    def waited_for(known: User | None) -> User:
        CompanyIdentity.objects.update(groups=["/ops", "/new"])
        return locked(known)

    monkeypatch.setattr(accounts, "locked", waited_for)
    client.post(reverse("company-group-new"), asked("/new", "Editors"))
    assert roles_of("olga") == {"Operators", "Editors"}
    assert CompanyIdentity.objects.get().groups == ["/ops", "/new"]


def test_an_old_form_does_not_give_back_what_a_newer_one_took() -> None:
    client = logged_in(a_person("Administrators", "adam"))
    rule = a_rule("/board", "Editors")
    place = reverse("company-group", args=[rule.pk])
    seen = client.get(place).context["seen"]
    taken = asked("/board", "Viewers", seen=seen, reason="no longer")
    assert client.post(place, taken).status_code == 303
    old = client.post(place, asked("/management", "Editors", seen=seen))
    assert old.status_code == 409
    for told in ("changed by somebody else", "no longer", "Viewers", "Save mine"):
        assert told in old.text
    assert str(GroupRule.objects.get().role) == "Viewers"
    mine = asked("/management", "Editors", seen=old.context["seen"])
    assert client.post(place, mine).status_code == 303
    assert (GroupRule.objects.get().group, GroupRule.objects.get().role.name) == (
        "/management",
        "Editors",
    )


def test_nobody_writes_a_rule_for_more_than_they_have(idp: IdentityProvider) -> None:
    clerk = a_person("Viewers", "clerk")
    permission = Right.PEOPLE.permission.partition(".")[2]
    clerk.user_permissions.add(Permission.objects.get(codename=permission))
    client = logged_in(clerk)
    high = a_rule("/board", "Administrators")
    answers = [
        client.post(reverse("company-group-new"), asked("/clerks", "Administrators")),
        client.post(reverse("company-group", args=[high.pk]), asked("/clerks", "Viewers")),
    ]
    assert [answer.status_code for answer in answers] == [422, 422]
    client.post(reverse("company-group-delete", args=[high.pk]))
    assert GroupRule.objects.filter(group="/board", role__name="Administrators").exists()
    assert not GroupRule.objects.filter(group="/clerks").exists()
    assert client.post(reverse("company-group-new"), asked("/clerks", "Viewers")).status_code == 303


def test_who_is_limited_writes_none(idp: IdentityProvider) -> None:
    person = a_person("Administrators")
    Limit.objects.create(person=person)
    client = logged_in(person)
    assert client.get(reverse("company-groups")).status_code == 403
    assert client.post(reverse("company-group-new"), asked("/x", "Viewers")).status_code == 403


def test_a_mistake_is_told_and_nothing_stored(idp: IdentityProvider) -> None:
    client = logged_in(a_person("Administrators"))
    eam = ExternalSystem.objects.create(name="eam")
    place = reverse("company-group-new")
    assert "has this role already" in client.post(place, asked("/ops", "Operators")).text
    ticked = client.post(place, asked("/x", "Viewers", systems=[eam.pk]))
    assert "the rule is not limited to them" in ticked.text
    assert client.post(place, {"group": "/x"}).status_code == 422
    assert GroupRule.objects.count() == 1


def test_an_administrator_disconnects_somebody_but_nobody_above(idp: IdentityProvider) -> None:
    logged_in_by(Client())
    olga = User.objects.get(username="olga")
    client = logged_in(a_person("Administrators", "adam"))
    page = client.get(reverse("person", args=[olga.pk])).text
    assert "Given by groups: Operators" in page
    assert "/cafeteria" in page
    User.objects.filter(pk=olga.pk).update(is_superuser=True)
    place = reverse("person-company-disconnect", args=[olga.pk])
    client.post(place)
    assert CompanyIdentity.objects.exists()
    User.objects.filter(pk=olga.pk).update(is_superuser=False)
    client.post(place, {"reason": "left"})
    assert not CompanyIdentity.objects.exists()
    assert roles_of("olga") == set()
