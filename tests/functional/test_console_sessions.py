"""Sessions: where somebody is logged in, and every way to end one."""

import time

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db import Error, connection
from django.test import Client
from django.urls import reverse

from console.layout.access import Right
from console.models import ConsoleSession, Limit
from console.people import accounts, roles
from console.people.session_limits import BEGAN, NOTED_SECONDS, SEEN
from integration.models import ConfigurationChange
from tests.support.rows import PASSWORD, a_held, a_person, a_queue_row, an_address

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

MAY_BE_DONE = 'id="may-be-done"'
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def logged_in(person: User, address: str = "fd00::1") -> Client:
    client = Client(REMOTE_ADDR=address, headers={"user-agent": FIREFOX})
    data = {"username": person.username, "password": PASSWORD}
    assert client.post(reverse("login"), data).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get(reverse("account")).status_code == 200


def number_of(client: Client) -> int:
    return ConsoleSession.objects.get(session_key=client.session.session_key).pk


def end_all(client: Client, person: User) -> int:
    return client.post(reverse("person-sessions-end", args=[person.pk])).status_code


def logouts() -> list[tuple[str, str]]:
    """Who has logged whom out."""
    rows = ConfigurationChange.every.filter(action="logout").order_by("at")
    return list(rows.values_list("actor", "name"))


def acting_on_audit(does: str) -> None:
    """Let the database do this, too, wherever a row of audit is stored."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE FUNCTION acts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does}; "
            "RETURN NEW; END $$; CREATE TRIGGER acts BEFORE INSERT "
            "ON integration_configurationchange FOR EACH ROW EXECUTE FUNCTION acts()"
        )


def whose_session_is_written_next(person: User) -> Client:
    """Somebody who was seen so long ago that the next request writes their session."""
    client = logged_in(person)
    session = client.session
    session[SEEN] = int(time.time()) - NOTED_SECONDS
    session.save()
    return client


def test_the_page_lists_where_one_is_logged_in_and_nobody_elses() -> None:
    olga = a_person("Viewers")
    here, _there = logged_in(olga, "fd00::1"), logged_in(olga, "fd00::2")
    logged_in(a_person("Viewers"), "fd00::3")
    page = here.get(reverse("sessions")).text
    assert page.count("Firefox on Linux</strong>") == 2
    assert page.count("This one") == 1
    assert "fd00::1" in page
    assert "fd00::2" in page
    assert "fd00::3" not in page


def test_one_session_is_ended_at_once_and_only_ones_own() -> None:
    olga = a_person("Viewers")
    here, there, others = logged_in(olga), logged_in(olga), logged_in(a_person("Viewers"))
    for client in (others, there):
        here.post(reverse("session-end", args=[number_of(client)]), follow=True)
    assert (is_in(here), is_in(there), is_in(others)) == (True, False, True)
    answer = here.post(reverse("session-end", args=[1_000_000]), follow=True)
    assert "no such session any more" in answer.text
    assert ConfigurationChange.every.filter(action="logout", actor=olga.username).count() == 1


def test_all_others_are_ended_or_everything() -> None:
    olga = a_person("Viewers")
    here, there = logged_in(olga), logged_in(olga)
    here.post(reverse("sessions-end"))
    assert (is_in(here), is_in(there)) == (True, False)
    there = logged_in(olga)
    answer = here.post(reverse("sessions-end"), {"everywhere": "1"})
    assert answer["Location"] == reverse("login")
    assert (is_in(here), is_in(there)) == (False, False)
    assert not ConsoleSession.objects.exists()


def test_an_administrator_logs_somebody_out_everywhere_but_nobody_above() -> None:
    olga, root = a_person("Viewers"), User.objects.create_superuser("root", password=PASSWORD)
    hers, roots, adams = logged_in(olga), logged_in(root), logged_in(a_person("Administrators"))
    assert "Firefox on Linux" in adams.get(reverse("person", args=[olga.pk])).text
    for person in (olga, root):
        adams.post(reverse("person-sessions-end", args=[person.pk]))
    assert (is_in(hers), is_in(roots), is_in(adams)) == (False, True, True)
    assert "ended by an administrator" in str(
        ConfigurationChange.every.filter(name=olga.username).values_list("reason", flat=True)
    )


def test_a_cookie_of_a_session_that_an_administrator_ended_does_nothing() -> None:
    olga, viewers = a_person("Administrators"), Group.objects.get(name="Viewers")
    hers, adams = logged_in(olga), logged_in(a_person("Administrators"))
    old = hers.cookies["sessionid"].value
    assert end_all(adams, olga) == 303
    assert not Session.objects.filter(session_key=old).exists()
    asked = {"rights": ["view", "operate"], "seen": roles.stamp(viewers)}
    answer = hers.post(reverse("role", args=[viewers.pk]), asked)
    assert answer["Location"].startswith(reverse("login"))
    assert roles.rights_of(Group.objects.get(name="Viewers")) == {Right.VIEW}
    assert is_in(logged_in(olga)), "they may come in again"


def test_who_ends_their_own_sessions_as_an_administrator_keeps_this_one() -> None:
    adam = a_person("Administrators")
    here, there = logged_in(adam), logged_in(adam)
    assert end_all(here, adam) == 303
    assert (is_in(here), is_in(there)) == (True, False)
    assert number_of(here) == ConsoleSession.objects.get().pk


def test_each_end_by_an_administrator_has_one_row_of_audit() -> None:
    olga, adam = a_person("Viewers"), a_person("Administrators")
    address = an_address()
    adams = logged_in(adam, address)
    logged_in(olga)
    logged_in(olga)
    end_all(adams, olga)
    assert logouts() == [(adam.username, olga.username)]
    row = ConfigurationChange.every.get(action="logout")
    assert (row.kind, row.after["address"], row.is_access) == ("session", address, True)
    assert row.reason.startswith("2 ")
    adams.get(reverse("person-sessions-end", args=[olga.pk]))
    assert len(logouts()) == 1, "a link that leads here ends nothing"


def test_sessions_are_not_ended_where_it_cannot_be_noted() -> None:
    olga = a_person("Viewers")
    hers, adams = logged_in(olga), logged_in(a_person("Administrators"))
    acting_on_audit("RAISE 'full'")
    with pytest.raises(Error):
        end_all(adams, olga)
    assert is_in(hers)
    assert ConsoleSession.objects.filter(person=olga).exists()


def test_nobody_without_the_right_or_below_ends_somebodys_sessions() -> None:
    clerks = Group.objects.create(name="Clerks")
    codes = [right.permission.split(".")[1] for right in (Right.PEOPLE, Right.VIEW)]
    clerks.permissions.set(Permission.objects.filter(codename__in=codes))
    editor, limited = a_person("Editors"), a_person("Administrators")
    Limit.objects.create(person=limited)
    theirs = logged_in(editor)
    # A refusal leads back to the page, which says why.
    for by, status in ((a_person("Operators"), 403), (limited, 403), (a_person("Clerks"), 303)):
        assert end_all(logged_in(by), editor) == status
        assert is_in(theirs)
    assert end_all(Client(), editor) == 302
    assert is_in(theirs)
    assert logouts() == []


@pytest.mark.parametrize("is_one_transaction", [False, True])
def test_who_is_logged_out_while_they_act_is_told_that_it_may_be_done(
    monkeypatch: pytest.MonkeyPatch, *, is_one_transaction: bool
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", is_one_transaction)
    client = whose_session_is_written_next(a_person("Administrators"))
    viewers = Group.objects.get(name="Viewers")
    acting_on_audit("DELETE FROM django_session")
    asked = {"rights": ["view", "operate"], "seen": roles.stamp(viewers)}
    answer = client.post(reverse("role", args=[viewers.pk]), asked)
    assert answer.status_code == 400
    assert roles.rights_of(Group.objects.get(name="Viewers")) == {Right.VIEW, Right.OPERATE}
    assert MAY_BE_DONE in answer.text
    # Whoever is out sees no menu, and comes in by the login.
    assert 'id="menu"' not in answer.text
    assert f'href="{reverse("overview")}"' in answer.text
    assert not is_in(client)


def test_who_is_logged_out_while_they_read_is_led_back_to_the_page() -> None:
    client = whose_session_is_written_next(a_person("Editors"))
    page = reverse("failure", args=[a_held(a_queue_row()).pk])
    acting_on_audit("DELETE FROM django_session")
    answer = client.get(page)
    assert answer.status_code == 400
    assert MAY_BE_DONE not in answer.text
    assert f'href="{page}"' in answer.text


def test_a_new_password_keeps_this_session_and_ends_the_others() -> None:
    olga = a_person("Viewers")
    here, there = logged_in(olga), logged_in(olga)
    new = "quite-another-1"
    data = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert here.post(reverse("password_change"), data).status_code == 302
    assert (is_in(here), is_in(there)) == (True, False)
    assert number_of(here) == ConsoleSession.objects.get().pk


def test_a_new_password_gives_no_session_back_that_was_ended_meanwhile() -> None:
    olga = a_person("Viewers")
    hers = logged_in(olga)
    # Ended for her once the request had loaded it: it is in memory only, and would be stored anew.
    ConsoleSession.objects.all().delete()
    new = "quite-another-1"
    data = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert hers.post(reverse("password_change"), data).url == reverse("login")
    assert not is_in(hers)
    assert not Session.objects.exists()


def test_who_is_switched_off_is_out_at_once() -> None:
    olga = a_person("Viewers", "olga")
    hers, adams = logged_in(olga), logged_in(a_person("Administrators"))
    adams.post(
        reverse("person", args=[olga.pk]), {"username": "olga", "seen": accounts.stamp(olga)}
    )
    assert not is_in(hers)
    assert not ConsoleSession.objects.filter(person=olga).exists()


def test_a_session_that_is_left_is_listed_no_more() -> None:
    olga = a_person("Viewers")
    here, there = logged_in(olga), logged_in(olga)
    there.post(reverse("logout"))
    assert here.get(reverse("sessions")).text.count("Firefox on Linux</strong>") == 1


def test_a_token_asks_for_the_password_of_a_login_that_is_not_recent() -> None:
    client = logged_in(a_person("Operators"))
    session = client.session
    session[BEGAN] = int(time.time() - 1_801)
    session.save()
    new = reverse("personal-token-new")
    asked = client.get(new)
    assert asked.status_code == 302
    place = reverse("confirm")
    assert asked["Location"].startswith(place)
    wrong = client.post(place, {"password": "wrong", "next": new})
    assert wrong.status_code == 422
    assert client.get(new).status_code == 302
    assert client.post(place, {"password": PASSWORD, "next": new})["Location"] == new
    assert client.get(new).status_code == 200


def test_the_confirmation_counts_its_tries_and_leads_to_no_other_site(settings: object) -> None:
    settings.SLUICE_LOGIN_TRIES = 1  # type: ignore[attr-defined] # of pytest-django
    client = logged_in(a_person("Operators"), an_address())
    place = reverse("confirm")
    good = {"password": PASSWORD, "next": "//elsewhere.example/"}
    assert client.post(place, good)["Location"] == reverse("account")
    told = [client.post(place, {"password": "wrong"}).status_code for _ in range(2)]
    assert told == [422, 429]
    assert client.post(place, good).status_code == 429
