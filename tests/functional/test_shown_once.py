"""What an answer shows once is shown by the second answer, too, where a form was sent twice."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import PersonalToken, SecondFactor
from console.people.personal_tokens import NoPersonalTokenError, person_of
from console.people.second import factors
from console.people.second.pages import BEGUN
from integration.models import ApiToken, ConfigurationChange
from integration.sealed import unseal
from tests.functional.test_second_factors import code_of, password_of
from tests.functional.test_setup_tokens import ASKED, posted_with, text_in
from tests.support import http_api
from tests.support.rows import a_person
from tests.support.set_up import logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


def twice(client: Client, address: str, form: dict[str, Any]) -> tuple[Any, Any]:
    """The answer that the browser throws away, and the one that it shows."""
    return client.post(address, form), client.post(address, form)


def test_a_token_and_its_successor(client: Client) -> None:
    partner = http_api.a_partner()
    partner.row.delete()
    answers = twice(client, reverse("token-new", args=[partner.system.pk]), ASKED)
    unseen, text = (text_in(answer.text) for answer in answers)
    assert (posted_with(partner, unseen), posted_with(partner, text)) == (401, 202)
    old = ApiToken.objects.get()
    address = reverse("token-rotate", args=[partner.system.pk, old.pk])
    answers = twice(client, address, {"days": "7"})
    unseen, text = (text_in(answer.text) for answer in answers)
    assert (posted_with(partner, unseen), posted_with(partner, text)) == (401, 202)
    assert [one.name for one in ApiToken.objects.order_by("pk")] == ["erp", "erp.2"]


def test_what_is_no_second_press_makes_no_other_text(client: Client) -> None:
    partner = http_api.a_partner()
    partner.row.delete()
    address = reverse("token-new", args=[partner.system.pk])
    client.post(address, ASKED)
    assert client.post(address, {**ASKED, "may_call": "on"}).status_code == 422, "other rights"
    assert logged_in(name="bert").post(address, ASKED).status_code == 422, "another person"
    ApiToken.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    assert client.post(address, ASKED).status_code == 422, "later"
    rotate = reverse("token-rotate", args=[partner.system.pk, ApiToken.objects.get().pk])
    assert client.post(rotate, {"days": "7"}).status_code == 200
    ApiToken.objects.filter(name="erp.2").update(created_at=timezone.now() - timedelta(seconds=45))
    told = client.get(client.post(rotate, {"days": "7"})["Location"]).text
    assert "Nobody has used erp.2 yet: if its text is lost, revoke that one." in unescape(told)


def test_a_personal_token() -> None:
    person, client = a_person("Operators"), Client()
    client.force_login(person)
    form = {"name": "nightly", "rights": ["operate"], "days": "7", "reason": "cleans up"}
    unseen, text = (
        text_in(answer.text) for answer in twice(client, reverse("personal-token-new"), form)
    )
    assert person_of(text) == person
    with pytest.raises(NoPersonalTokenError):
        person_of(unseen)
    assert PersonalToken.objects.count() == 1
    assert client.post(reverse("personal-token-new"), form).status_code == 422, "it was used"


def test_a_generated_password(client: Client) -> None:
    form = {"username": "olga", "is_active": "on"}
    answers = twice(client, reverse("add-person"), form)
    shown = [re.search(r"<code[^>]*>([^<]+)</code>", answer.text) for answer in answers]
    assert all(shown)
    assert User.objects.get(username="olga").check_password(shown[1][1])  # type: ignore[index]
    told = ConfigurationChange.objects.filter(kind="user").order_by("pk")
    assert [one.action for one in told] == ["create", "change"]
    assert client.post(reverse("add-person"), {**form, "password": "4711-abcd!"}).status_code == 422
    assert logged_in(name="bert").post(reverse("add-person"), form).status_code == 422
    told.update(at=timezone.now() - timedelta(minutes=1))
    assert client.post(reverse("add-person"), form).status_code == 422


def test_the_recovery_codes_of_a_first_app() -> None:
    person = a_person("Operators")
    client, _ = password_of(person)
    client.get(reverse("second-factor-app"))
    form = {"name": "Mine", "code": code_of(unseal(client.session[BEGUN]))}
    answers = twice(client, reverse("second-factor-app"), form)
    codes = re.findall(r"\b[a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4}\b", answers[1].text)
    assert len(codes) == factors.CODES
    assert SecondFactor.objects.filter(person=person, kind="app").count() == 1
    assert factors.is_code(person, codes[0])
    again = client.post(reverse("second-factor-app"), form)
    assert again.status_code == 303, "they are in use"
