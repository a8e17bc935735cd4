"""Personal tokens in the console: made, shown once, limited, revoked; and no log ever has one."""

import io
import json
import logging
import logging.config
from contextlib import suppress
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.conf import settings as of_tests
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right, has, scope_of
from console.models import CompanyIdentity, Limit, PersonalToken
from console.people import personal_tokens
from console.people.personal_tokens import (
    NoPersonalTokenError,
    PersonalTokenOverError,
    person_of,
)
from integration.models import ConfigurationChange, ExternalSystem
from integration.selectors.scope import Scope
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ASKED = {"name": "nightly", "rights": ["operate"], "days": "7", "reason": "cleans up"}


def logged_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def text_in(page: str) -> str:
    return unescape(page.partition('id="token"')[2].partition(">")[2].partition("<")[0])


def test_a_token_is_shown_once_and_only_its_hash_is_stored() -> None:
    person = a_person("Operators", "otto")
    client = logged_in(person)
    answer = client.post(reverse("personal-token-new"), ASKED)
    assert answer["Cache-Control"] == "no-store"
    token = text_in(answer.text)
    row = PersonalToken.objects.get()
    assert person_of(token) == person
    assert token not in {row.prefix, row.token_hash}
    page = client.get(reverse("personal-tokens")).text
    assert row.prefix in page
    assert token not in page
    change = ConfigurationChange.objects.get(kind="personaltoken")
    assert (change.actor, change.reason, change.action) == ("otto", "cleans up", "create")
    assert token not in json.dumps(change.after)


def test_a_form_offers_no_right_that_its_person_lacks() -> None:
    client = logged_in(a_person("Operators"))
    page = client.get(reverse("personal-token-new")).text
    assert 'value="operate"' in page
    assert 'value="edit_payload"' not in page
    answer = client.post(reverse("personal-token-new"), {**ASKED, "rights": ["edit_payload"]})
    assert answer.status_code == 422
    assert not PersonalToken.objects.exists()


def test_nobody_manages_people_by_a_token() -> None:
    administrator = a_program("Administrators", tuple(Right))
    assert has(administrator.person, Right.PEOPLE)
    assert Right.PEOPLE not in personal_tokens.GRANTABLE
    page = logged_in(administrator.person).get(reverse("personal-token-new")).text
    assert 'value="people"' not in page


def test_a_token_has_the_rights_that_its_person_still_has_and_their_limit() -> None:
    person = a_person("Editors")
    program = a_program(rights=[Right.VIEW, Right.OPERATE], person=person)
    met = person_of(program.token)
    assert {right for right in Right if has(met, right)} == {Right.VIEW, Right.OPERATE}
    system = ExternalSystem.objects.create(name="eam")
    Limit.objects.create(person=person).systems.set([system])
    assert scope_of(person_of(program.token)) == Scope(frozenset({system.pk}))
    person.groups.set([Group.objects.get(name="Viewers")])
    met = person_of(program.token)
    assert {right for right in Right if has(met, right)} == {Right.VIEW}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"revoked_at": timezone.now()}, "was revoked"),
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "has expired"),
    ],
    ids=["revoked", "expired"],
)
def test_a_token_that_is_over_says_so(change: dict[str, object], why: str) -> None:
    program = a_program()
    PersonalToken.objects.update(**change)
    with pytest.raises(PersonalTokenOverError, match=why):
        person_of(program.token)


def test_a_token_ends_with_its_persons_account() -> None:
    program = a_program()
    User.objects.update(is_active=False)
    with pytest.raises(PersonalTokenOverError, match="may not log in"):
        person_of(program.token)


def test_a_wrong_text_is_nobody() -> None:
    program = a_program()
    for text in ("", "nonsense", program.token + "x", f"{program.row.prefix}_{'x' * 43}"):
        with pytest.raises(NoPersonalTokenError):
            person_of(text)


def test_its_last_use_is_noted() -> None:
    program = a_program()
    assert program.row.last_used_at is None
    program.get("/failures")
    program.row.refresh_from_db()
    assert program.row.last_used_at is not None


def test_a_person_revokes_their_own_tokens_only() -> None:
    mine, theirs = a_program(), a_program()
    client = logged_in(mine.person)
    addresses = [reverse("personal-token-revoke", args=[one.row.pk]) for one in (theirs, mine)]
    assert [client.post(one, {"reason": "lost"}).status_code for one in addresses] == [404, 303]
    client.post(addresses[1])
    assert mine.get("/failures").status_code == 401
    assert theirs.get("/failures").status_code == 200
    revoked = ConfigurationChange.objects.get(kind="personaltoken", action="change")
    assert (revoked.subject, revoked.reason) == (str(mine.row.pk), "lost")


def test_who_manages_people_ends_the_tokens_of_others_but_not_of_those_above() -> None:
    theirs = a_program("Operators")
    client = logged_in(a_person("Administrators", "adam"))
    page = client.get(reverse("person", args=[theirs.person.pk])).text
    assert theirs.row.prefix in page
    address = reverse("person-token-revoke", args=[theirs.person.pk, theirs.row.pk])
    assert client.post(address, {"reason": "in a paste"}).status_code == 303
    assert theirs.get("/failures").status_code == 401
    change = ConfigurationChange.objects.get(kind="personaltoken", action="change")
    assert (change.actor, change.reason) == ("adam", "in a paste")
    root = a_program(person=User.objects.create_superuser("root"))
    client.post(reverse("person-token-revoke", args=[root.person.pk, root.row.pk]))
    assert root.get("/failures").status_code == 200
    other = reverse("person-token-revoke", args=[theirs.person.pk, root.row.pk])
    assert client.post(other).status_code == 404


def test_a_name_is_taken_once() -> None:
    client = logged_in(a_person("Viewers"))
    client.post(reverse("personal-token-new"), {**ASKED, "rights": []})
    PersonalToken.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    answer = client.post(reverse("personal-token-new"), {**ASKED, "rights": []})
    assert answer.status_code == 422
    assert "already" in answer.text


def log_lines(*, of: str) -> tuple[io.StringIO, logging.Handler]:
    """What would be written by the installation's own form of log lines."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    form = of_tests.LOGGING["formatters"]["json"]
    formatter = logging.config.DictConfigurator({}).configure_formatter(dict(form))
    handler.setFormatter(formatter)
    logging.getLogger(of).addHandler(handler)
    return written, handler


def fail_with(text: str) -> None:
    try:
        int(text)
    except ValueError:
        logging.getLogger("sluice.tests").exception("as told")
        raise


def test_no_log_line_ever_has_a_token() -> None:
    """Not even one that somebody writes on purpose, nor the traceback of a mistake of ours."""
    program = a_program()
    written, handler = log_lines(of="")
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.DEBUG)
    try:
        facts(program.get("/failures"))
        program.ask("GET", f"/failures?token={program.token}")
        program.ask("GET", f"/nothing/{program.token}")
        for scheme in ("Basic", "Token", "Bearer sluice"):
            program.ask("GET", "/failures", headers={"Authorization": f"{scheme} {program.token}"})
        program.post("/operations", {"verb": program.token})
        logging.getLogger("sluice.tests").warning(
            "sent %s", program.token, extra={"a": program.token}
        )
        with suppress(ValueError):
            fail_with(program.token)
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    lines = written.getvalue()
    assert "as told" in lines
    assert f"{program.row.prefix}_***" in lines
    assert program.token not in lines
    assert program.token.removeprefix(f"{program.row.prefix}_") not in lines


def test_a_token_sleeps_while_its_person_does_not_come_in_by_the_company_login(
    settings: Any,
) -> None:
    program = a_program()
    assert person_of(program.token) == program.person
    identity = CompanyIdentity.objects.create(
        person=program.person,
        issuer="https://id.example",
        subject="7",
        seen_at=timezone.now() - timedelta(days=91),
    )
    answer = program.get("/failures")
    assert (answer.status_code, answer.json()["code"]) == (401, "PERSONAL_TOKEN_ASLEEP")
    settings.SLUICE_OIDC_TOKEN_DAYS = 0
    assert person_of(program.token) == program.person
    settings.SLUICE_OIDC_TOKEN_DAYS = 90
    CompanyIdentity.objects.filter(pk=identity.pk).update(seen_at=timezone.now())
    assert person_of(program.token) == program.person


def test_a_reason_longer_than_its_field_is_cut_by_the_page_and_by_whoever_writes_it() -> None:
    program, long = a_program(), "x" * 1_000
    place = reverse("personal-token-revoke", args=[program.row.pk])
    logged_in(program.person).post(place, {"reason": long})
    personal_tokens.make(
        program.person, "second", [Right.VIEW], valid_for=timedelta(days=1), reason=long
    )
    reasons = ConfigurationChange.objects.filter(reason__startswith="xx", kind="personaltoken")
    assert [len(row.reason) for row in reasons] == [500, 500]


def test_an_administrator_who_disconnects_somebody_revokes_their_tokens() -> None:
    program = a_program()
    CompanyIdentity.objects.create(
        person=program.person, issuer="https://id.example", subject="7", seen_at=timezone.now()
    )
    place = reverse("person-company-disconnect", args=[program.person.pk])
    root = User.objects.create_superuser("root")
    page = logged_in(root).get(reverse("person", args=[program.person.pk])).text
    assert "personal tokens are revoked" in page
    logged_in(root).post(place, {"reason": "left"})
    assert program.get("/failures").status_code == 401
    change = ConfigurationChange.objects.filter(kind="personaltoken", actor="root").get()
    assert change.reason == "left"
    assert PersonalToken.objects.get(pk=program.row.pk).revoked_at is not None
