"""The company login: who gets in by it, with which roles; and every answer that proves nothing."""

import re
import time
from html import unescape
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.urls import reverse

from console.models import CompanyIdentity, ConsoleSession, Limit
from console.people import accounts, limits
from console.people.company import entering
from console.people.company.rechecks import CHECKED
from console.people.session_limits import BEGAN
from integration.actions.configuration import Author
from integration.models import ConfigurationChange, ExternalSystem
from tests.support.company_login import a_rule, accesses, systems_of, who
from tests.support.identity_provider import (
    IdentityProvider,
    came_back,
    logged_in_by,
)
from tests.support.rows import PASSWORD, a_person, an_address

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def roles_of(name: str) -> set[str]:
    return {group.name for group in User.objects.get(username=name).groups.all()}


def test_the_first_login_makes_the_account_with_the_roles_of_its_groups(
    idp: IdentityProvider,
) -> None:
    client = Client()
    assert "Company login" in client.get(reverse("login")).text
    answer = logged_in_by(client, to="/queues/")
    assert (answer.status_code, answer["Location"]) == (303, "/queues/")
    olga = User.objects.get(username="olga")
    assert (who(client), olga.email) == ("olga", "olga@example.org")
    assert roles_of("olga") == {"Operators"}
    assert not olga.has_usable_password()
    assert (idp.asked["code_challenge_method"], idp.asked["response_type"]) == ("S256", "code")
    assert accesses() == [("login", "olga", "By the company login.")]
    changes = ConfigurationChange.objects.order_by("pk")
    assert [row.action for row in changes] == ["create", "change"]
    assert ConsoleSession.objects.get().way == "company"


def test_groups_are_applied_at_each_login_and_what_was_given_by_hand_stays(
    idp: IdentityProvider,
) -> None:
    logged_in_by(Client())
    User.objects.get(username="olga").groups.add(Group.objects.get(name="Viewers"))
    idp.claims["groups"] = ["/edit"]
    a_rule("/edit", "Editors", ExternalSystem.objects.create(name="eam"))
    logged_in_by(Client())
    assert roles_of("olga") == {"Viewers", "Editors"}
    assert systems_of("olga") == {"eam"}
    idp.claims["groups"] = ["/ops"]
    logged_in_by(Client())
    assert roles_of("olga") == {"Viewers", "Operators"}
    assert systems_of("olga") is None


def test_a_limit_by_hand_stays_beside_that_of_rules(idp: IdentityProvider) -> None:
    """Neither widens the other, and the end of the one is not the end of the other."""
    eam, erp, crm = (ExternalSystem.objects.create(name=name) for name in ("eam", "erp", "crm"))
    logged_in_by(Client())
    olga = User.objects.get(username="olga")
    # As the release before has written it.
    Limit.objects.create(person=olga).systems.set([eam, crm])
    a_rule("/cafeteria", "Viewers", eam, erp)
    logged_in_by(Client())
    assert systems_of("olga") == {"eam"}
    limits.store(olga, [crm])
    assert systems_of("olga") == set()
    idp.claims["groups"] = ["/ops"]
    logged_in_by(Client())
    assert systems_of("olga") == {"crm"}
    limits.store(olga, None)
    assert systems_of("olga") is None


def test_who_leaves_the_company_login_keeps_the_limit(idp: IdentityProvider) -> None:
    """With roles by hand they would widen them by themselves."""
    a_rule("/cafeteria", "Viewers", ExternalSystem.objects.create(name="eam"))
    logged_in_by(Client())
    olga = User.objects.get(username="olga")
    olga.groups.add(Group.objects.get(name="Editors"))
    assert entering.disconnect(olga, Author("olga", ""))
    assert systems_of("olga") == {"eam"}
    assert limits.by_hand(olga) is not None


def test_the_one_limit_of_earlier_versions_is_that_of_the_rules(idp: IdentityProvider) -> None:
    migration = import_module("console.migrations.0006_limits_of_rules")
    a_rule("/cafeteria", "Viewers", ExternalSystem.objects.create(name="eam"))
    logged_in_by(Client())
    CompanyIdentity.objects.get().systems.clear()
    migration.copy(apps, SimpleNamespace(connection=connection))
    limits.store(User.objects.get(username="olga"), None)
    assert systems_of("olga") == {"eam"}


def test_a_limited_rule_limits_the_whole_person(idp: IdentityProvider) -> None:
    systems = [ExternalSystem.objects.create(name=name) for name in ("eam", "erp", "crm")]
    a_rule("/cafeteria", "Viewers", systems[0])
    a_rule("/ops", "Editors", systems[1])
    logged_in_by(Client())
    assert systems_of("olga") == {"eam", "erp"}


def test_who_has_no_group_with_a_role_is_told_what_to_do_and_gets_no_account(
    idp: IdentityProvider,
) -> None:
    idp.claims["groups"] = ["/cafeteria"]
    client = Client()
    answer = logged_in_by(client)
    text = unescape(answer.text)
    assert answer.status_code == 403
    assert "IDENTITY_WITHOUT_ROLE" in text
    assert "/cafeteria" in text
    assert "Ask an administrator" in text
    assert who(client) == ""
    assert not User.objects.exists()
    assert accesses()[0][0] == "login-failed"


def test_a_group_lost_while_logged_in_takes_its_rights_at_the_next_check(
    idp: IdentityProvider, settings: Any
) -> None:
    client = Client()
    logged_in_by(client)
    idp.claims["groups"] = []
    assert client.get(reverse("queues")).status_code == 200, "until then nothing is asked"
    stale(client, settings.SLUICE_OIDC_RECHECK_MINUTES * 60 + 1)
    assert client.post(reverse("theme"), {"theme": "dark"}).status_code == 303, "no form is lost"
    sent = client.get(reverse("queues"), {"kind": "sequential"})
    assert sent.status_code == 303
    assert sent["Location"].startswith(reverse("company-login"))
    answer = client.get(came_back(client, client.get(sent["Location"])))
    assert (answer.status_code, who(client)) == (403, "")
    assert roles_of("olga") == set()
    assert not ConsoleSession.objects.exists()


def test_who_still_has_the_group_goes_on_where_they_were(
    idp: IdentityProvider, settings: Any
) -> None:
    client = Client()
    logged_in_by(client)
    began = client.session[BEGAN] - 100
    stale(client, settings.SLUICE_OIDC_RECHECK_MINUTES * 60 + 1, **{BEGAN: began})
    sent = client.get("/queues/?kind=sequential")
    answer = client.get(came_back(client, client.get(sent["Location"])))
    assert answer["Location"] == "/queues/?kind=sequential"
    assert client.get(answer["Location"]).status_code == 200
    assert client.session[BEGAN] == began, "the absolute limit is not moved"


def test_of_two_tabs_that_ask_at_once_each_goes_on_where_it_was(idp: IdentityProvider) -> None:
    client = Client()
    begun = [client.get(reverse("company-login"), {"next": to}) for to in ("/queues/", "/cron/")]
    backs = [came_back(client, one) for one in begun]
    assert [client.get(back)["Location"] for back in backs] == ["/queues/", "/cron/"]


def test_figures_and_forms_are_let_through_only_for_as_long_again(
    idp: IdentityProvider, settings: Any
) -> None:
    client = Client()
    logged_in_by(client)
    limit = settings.SLUICE_OIDC_RECHECK_MINUTES * 60
    by_itself = {"hx-request": "true"}
    stale(client, limit + 1)
    assert "HX-Refresh" not in client.get(reverse("queues"), headers=by_itself)
    stale(client, 2 * limit + 1)
    assert client.get(reverse("queues"), headers=by_itself)["HX-Refresh"] == "true"
    assert client.post(reverse("theme")).status_code in {303, 400}
    answer = client.post(reverse("pause", args=["any"]))
    assert answer["Location"].startswith(reverse("company-login"))


def link_to_connect(client: Client) -> str:
    link = re.search(r'href="([^"]+/connection/[^"]+)"', client.get(reverse("account")).text)
    assert link
    return link[1]


def stale(client: Client, seconds: float, **more: Any) -> None:
    session = client.session
    session[CHECKED] = int(time.time() - seconds)
    session.update(more)
    session.save()


def test_without_the_provider_a_session_goes_on_and_passwords_still_work(
    idp: IdentityProvider, settings: Any
) -> None:
    client = Client()
    logged_in_by(client)
    # It was there a moment ago.
    idp.is_broken = True
    stale(client, settings.SLUICE_OIDC_RECHECK_MINUTES * 60 + 1)
    sent = client.get(reverse("queues"))
    assert client.get(sent["Location"])["Location"] == reverse("queues")
    page = client.get(reverse("queues"))
    assert page.status_code == 200
    assert "your rights stay as they were" in page.text
    stranger = Client()
    answer = stranger.get(reverse("company-login"))
    assert answer.status_code == 503
    assert "IDENTITY_PROVIDER_DOWN" in answer.text
    assert "Log in with a password meanwhile" in answer.text
    name = a_person("Viewers").username
    stranger.post(reverse("login"), {"username": name, "password": PASSWORD})
    assert who(stranger) == name


def test_who_is_logged_in_goes_on_where_an_address_has_begun_too_many_logins(
    idp: IdentityProvider, settings: Any
) -> None:
    settings.SLUICE_LOGIN_TRIES = 1
    address = an_address()
    client, stranger = Client(REMOTE_ADDR=address), Client(REMOTE_ADDR=address)
    logged_in_by(client)
    begun = [stranger.get(reverse("company-login")).status_code for _ in range(6)]
    assert begun == [302] * 5 + [429]
    for _ in range(6):
        stale(client, settings.SLUICE_OIDC_RECHECK_MINUTES * 60 + 1)
        sent = client.get(reverse("queues"))
        back = came_back(client, client.get(sent["Location"]))
        assert client.get(back)["Location"] == reverse("queues")
    assert stranger.get(reverse("company-login")).status_code == 429, "no return forgives theirs"


def test_groups_that_are_only_told_on_request_are_asked_for(idp: IdentityProvider) -> None:
    del idp.claims["groups"]
    idp.told_on_request = {"groups": ["/ops"]}
    logged_in_by(Client())
    assert roles_of("olga") == {"Operators"}
    idp.told_on_request = {"sub": "somebody else", "groups": ["/ops"]}
    assert logged_in_by(Client()).status_code == 403, "another person's groups are not taken"
    idp.claims["_claim_names"] = {"groups": "src1"}
    assert "more groups than it writes down" in logged_in_by(Client()).text


def test_an_account_of_the_same_name_is_not_taken_over_but_connected_by_its_person(
    idp: IdentityProvider,
) -> None:
    person = a_person("Viewers", "Olga")
    client = Client()
    answer = logged_in_by(client)
    assert "IDENTITY_NAME_TAKEN" in answer.text
    assert who(client) == ""
    client.force_login(person)
    assert client.get(reverse("company-connect"))["Location"] == reverse("account"), "by no link"
    back = came_back(client, client.get(link_to_connect(client)))
    assert client.get(back)["Location"] == reverse("account")
    assert "Your account can be entered by the company login now" in client.get("/account/").text
    assert roles_of("Olga") == {"Viewers", "Operators"}
    again = Client()
    logged_in_by(again)
    assert who(again) == "Olga"
    other = Client()
    other.force_login(a_person("Viewers", "otto"))
    refused = other.get(came_back(other, other.get(link_to_connect(other))))
    assert "IDENTITY_OF_ANOTHER" in refused.text
    assert client.post(reverse("company-disconnect"))["Location"] == reverse("login")
    assert roles_of("Olga") == {"Viewers"}
    assert not CompanyIdentity.objects.exists()


def test_an_account_that_is_switched_off_stays_out_and_is_out_at_once(
    idp: IdentityProvider,
) -> None:
    client = Client()
    logged_in_by(client)
    olga = User.objects.get(username="olga")
    administrator = Client()
    administrator.force_login(a_person("Administrators"))
    place = reverse("person", args=[olga.pk])
    form = {"username": "olga", "roles": [], "seen": accounts.stamp(olga)}
    answer = administrator.post(place, form)
    assert answer.status_code == 303
    assert client.get(reverse("account")).status_code == 302
    assert not ConsoleSession.objects.filter(person=olga).exists()
    assert "IDENTITY_ACCOUNT_OFF" in logged_in_by(client).text


def test_a_token_asks_for_a_company_login_that_was_just_made(idp: IdentityProvider) -> None:
    client = Client()
    logged_in_by(client)
    session = client.session
    session[BEGAN] = int(time.time() - 3_600)
    session.save()
    asked = client.get(reverse("personal-token-new"))
    assert asked["Location"].startswith(reverse("confirm"))
    assert "for=confirm" in client.get(asked["Location"]).text
    idp.lies = {"auth_time": int(time.time() - 3_600)}
    to = reverse("personal-token-new")
    assert "have just logged in there" in logged_in_by(client, to, **{"for": "confirm"}).text
    idp.lies = {}
    assert logged_in_by(client, to, **{"for": "confirm"})["Location"] == to
    assert (idp.asked["prompt"], idp.asked["max_age"]) == ("login", "0")
    assert client.get(to).status_code == 200


def test_without_a_provider_there_is_no_such_door(settings: Any) -> None:
    assert "Company login" not in Client().get(reverse("login")).text
    assert Client().get(reverse("company-login")).status_code == 404
    assert Client().get(reverse("company-callback"), {"code": "4"}).status_code == 404


def test_passwords_can_be_switched_off(idp: IdentityProvider, settings: Any) -> None:
    settings.SLUICE_LOCAL_LOGIN = False
    name = a_person("Viewers").username
    assert 'type="password"' not in Client().get(reverse("login")).text
    answer = Client().post(reverse("login"), {"username": name, "password": PASSWORD})
    assert answer.status_code == 403
    assert logged_in_by(Client()).status_code == 303


def test_so_many_company_logins_are_begun_from_one_address(
    idp: IdentityProvider, settings: Any
) -> None:
    settings.SLUICE_LOGIN_TRIES = 1
    client = Client(REMOTE_ADDR=an_address())
    for _ in range(6):
        assert logged_in_by(client).status_code == 303, "what succeeds is not counted"
        client.post(reverse("logout"))
    told = [client.get(reverse("company-login")).status_code for _ in range(6)]
    assert told == [302] * 5 + [429]
