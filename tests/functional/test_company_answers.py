"""What comes back from an identity provider and proves nothing: nobody gets in by it."""

import io
import logging
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from joserfc.jwk import ECKey

from console.models import CompanyIdentity
from console.people.company import entering
from console.people.company.errors import IdentityOfAnotherError
from console.people.company.told import Told
from integration.models import ConfigurationChange
from sluice.logs import LogLines
from tests.support.company_login import accesses, who
from tests.support.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    IdentityProvider,
    came_back,
    logged_in_by,
)
from tests.support.rows import PASSWORD, a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def test_a_provider_that_breaks_or_calls_itself_otherwise_is_down(idp: IdentityProvider) -> None:
    idp.is_broken = True
    assert Client().get(reverse("company-login")).status_code == 503
    idp.is_broken = False
    right, idp.issuer = idp.issuer, "http://127.0.0.1:2"
    answer = Client().get(reverse("company-login"))
    assert answer.status_code == 503
    assert "another address than SLUICE_OIDC_ISSUER" in answer.text
    idp.issuer = right
    assert Client().get(reverse("company-login")).status_code == 302


def test_an_answer_counts_once(idp: IdentityProvider) -> None:
    client = Client()
    back = came_back(client, client.get(reverse("company-login")))
    assert client.get(back).status_code == 303
    # Somebody who goes back in the browser stays where they are.
    assert client.get(back)["Location"] == reverse("overview")
    assert who(client) == "olga"
    client.post(reverse("logout"))
    for browser in (client, Client()):
        answer = browser.get(back)
        assert answer.status_code == 403
        assert "IDENTITY_ANSWER_REFUSED" in answer.text
        assert who(browser) == ""


def test_a_code_that_was_used_is_refused_in_a_login_of_its_own(idp: IdentityProvider) -> None:
    thief, client = Client(), Client()
    used = came_back(client, client.get(reverse("company-login")))
    client.get(used)
    theirs = came_back(thief, thief.get(reverse("company-login")))
    code, state = used.partition("code=")[2].partition("&")[0], theirs.partition("state=")[2]
    answer = thief.get(reverse("company-callback") + f"?code={code}&state={state}")
    assert answer.status_code == 403
    assert "its code was used already" in answer.text
    assert who(thief) == ""


@pytest.mark.parametrize(
    "lies",
    [
        {"nonce": "of another login"},
        {"nonce": None},
        {"aud": "another-console"},
        {"aud": ["another-console", CLIENT_ID]},
        {"iss": "https://elsewhere.example"},
        {"sub": None},
        {"exp": 1_000_000_000},
        {"exp": None},
    ],
    ids=str,
)
def test_an_id_token_that_is_not_for_this_login_is_refused(
    idp: IdentityProvider, lies: dict[str, Any]
) -> None:
    idp.lies = lies
    client = Client()
    answer = logged_in_by(client)
    assert answer.status_code == 403
    assert "IDENTITY_ANSWER_REFUSED" in answer.text
    assert who(client) == ""
    assert not User.objects.exists()


def test_an_id_token_of_another_key_is_refused(idp: IdentityProvider) -> None:
    idp.shows = ECKey.generate_key("P-256", private=True)
    answer = logged_in_by(Client())
    assert answer.status_code == 403
    assert "could not be verified" in answer.text


@pytest.mark.parametrize(("ahead", "status"), [(20, 303), (-310, 303), (45, 403), (-345, 403)])
def test_clocks_may_differ_by_seconds_and_no_more(
    idp: IdentityProvider, ahead: int, status: int
) -> None:
    """Its tokens are good for 300 seconds; half a minute is borne on both sides."""
    idp.ahead = ahead
    answer = logged_in_by(Client())
    assert answer.status_code == status
    assert status == 303 or "compare this host" in answer.text


def test_a_refusal_of_the_provider_is_told_without_its_own_words(idp: IdentityProvider) -> None:
    client = Client()
    client.get(reverse("company-login"))
    said = {"error": "access_denied", "error_description": "<b>call 0900</b>"}
    answer = client.get(reverse("company-callback"), said)
    assert answer.status_code == 403
    assert "access_denied" in answer.text
    unknown = client.get(reverse("company-callback"), {"error": "call 0900"})
    for one in (answer, unknown):
        told = one.text.partition('role="alert"')[2].partition("</a>")[0]
        assert "IDENTITY_DENIED" in told
        assert "0900" not in told


def test_no_log_and_no_table_holds_what_the_provider_handed_out(idp: IdentityProvider) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    client = Client()
    try:
        back = came_back(client, client.get(reverse("company-login")))
        logging.getLogger("django.server").info('"GET %s HTTP/1.1" 303', back)
        client.get(back)
        client.get(back)
        idp.lies = {"nonce": "another"}
        logged_in_by(client)
        for token in idp.handed_out:
            if token.startswith("eyJ"):
                logging.getLogger("any").error("a mistake of ours: %s", token)
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    kept = f"{written.getvalue()} {dict(client.session)} {accesses()}"
    assert "company login" in kept
    assert "eyJ***" in kept
    handed_out = {one for one in idp.handed_out if one} | {CLIENT_SECRET}
    assert len(handed_out) > 6
    assert not {one for one in handed_out if one in kept}


def test_connecting_once_more_follows_the_provider_to_its_new_address(
    idp: IdentityProvider,
) -> None:
    logged_in_by(Client())
    person = User.objects.get(username="olga")
    subject = CompanyIdentity.objects.get().subject
    told = Told("https://new.example", subject, "olga", "", ("/ops",), None)
    entering.connect(person, told)
    identity = CompanyIdentity.objects.get()
    assert (identity.person_id, identity.issuer) == (person.pk, "https://new.example")
    change = ConfigurationChange.objects.get(kind="user", after__has_key="company issuer")
    assert change.before == {"company issuer": idp.issuer}
    with pytest.raises(IdentityOfAnotherError):
        entering.connect(a_person("Viewers", "otto"), told)


def test_nobody_disconnects_themselves_where_no_password_is_taken(
    idp: IdentityProvider, settings: Any
) -> None:
    client = Client()
    logged_in_by(client)
    person = User.objects.get(username="olga")
    person.set_password(PASSWORD)
    person.save()
    client.force_login(person)
    settings.SLUICE_LOCAL_LOGIN = False
    assert client.post(reverse("company-disconnect"))["Location"] == reverse("account")
    assert CompanyIdentity.objects.exists()
