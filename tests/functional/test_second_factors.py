"""Second factors: added, asked for after the password, counted, enforced, lost."""

import json
import re
import time
import uuid
from base64 import b64encode, urlsafe_b64encode
from typing import Any, Final

import pyotp
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from fido2.cose import ES256
from fido2.webauthn import AttestedCredentialData

from console.models import SecondFactor
from console.people import tries
from console.people.second import factors
from console.people.second.pages import BEGUN
from console.people.second.step import HALF
from integration.models import ConfigurationChange
from integration.sealed import unseal
from tests.support.rows import PASSWORD, a_person, an_address

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

SECOND = "login-second"


def with_an_app(role: str = "Operators") -> tuple[User, str]:
    # A name of its own, since tries are counted by name.
    person, secret = a_person(role, f"person-{uuid.uuid4().hex}"), factors.new_secret()
    assert factors.add_app(person, secret, code_of(secret), "My telephone")
    # The code of now may be shown once more.
    SecondFactor.objects.filter(person=person).update(last_step=0)
    return person, secret


def code_of(secret: str, steps: int = 0) -> str:
    """The code of now, or of so many steps later."""
    return pyotp.TOTP(secret).at(int(time.time()) + 30 * steps)


def password_of(person: User, client: Client | None = None, **more: str) -> tuple[Client, Any]:
    client = client or Client()
    data = {"username": person.username, "password": PASSWORD, **more}
    return client, client.post(reverse("login"), data)


def is_in(client: Client) -> bool:
    return client.get(reverse("queues")).status_code == 200


def test_the_password_alone_lets_nobody_in_who_has_an_app() -> None:
    person, secret = with_an_app()
    client, answer = password_of(person, next="/failures/")
    assert answer["Location"] == reverse(SECOND)
    assert not is_in(client)
    assert client.post(reverse(SECOND), {"code": "0"}).status_code == 422
    assert not is_in(client)
    answer = client.post(reverse(SECOND), {"code": code_of(secret)})
    assert (answer.status_code, answer["Location"]) == (303, "/failures/")
    assert is_in(client)
    told = ConfigurationChange.every.filter(is_access=True, kind="session").order_by("pk")
    assert [(row.action, row.reason) for row in told] == [
        ("login-failed", "The second factor was wrong."),
        ("login", "By password and second factor."),
    ]


def test_a_code_of_the_app_counts_once() -> None:
    person, secret = with_an_app()
    code = code_of(secret)
    first, second = (password_of(person)[0] for _ in range(2))
    assert first.post(reverse(SECOND), {"code": f"{code[:3]} {code[3:]}"}).status_code == 303
    assert second.post(reverse(SECOND), {"code": code}).status_code == 422
    assert second.post(reverse(SECOND), {"code": code_of(secret, 1)}).status_code == 303
    third, _ = password_of(person)
    assert third.post(reverse(SECOND), {"code": code_of(secret, 5)}).status_code == 422


def test_a_known_password_allows_no_more_codes_than_tries(settings: Any) -> None:
    settings.SLUICE_LOGIN_TRIES = 4
    person, secret = with_an_app()
    answers = []
    address = an_address()
    for _ in range(3):
        client, answer = password_of(person, Client(REMOTE_ADDR=address))
        answers += [answer.status_code]
        if answer.status_code == 303:
            answers += [client.post(reverse(SECOND), {"code": "0"}).status_code]
    assert answers == [303, 422, 303, 422, 429]
    assert client.post(reverse(SECOND), {"code": code_of(secret)})["Location"] == reverse("login")
    assert not is_in(client)


def test_wrong_codes_are_counted_by_person_for_a_day_and_a_right_one_ends_no_count(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SLUICE_LOGIN_TRIES = 1_000
    monkeypatch.setattr(tries, "WRONG_CODES_A_DAY", 3)
    person, secret = with_an_app()

    def shown(code: str) -> int:
        # Neither its name nor its address is counted to its end.
        client, _ = password_of(person, Client(REMOTE_ADDR=an_address()))
        answer = client.post(reverse(SECOND), {"code": code})
        if answer.status_code == 429:
            assert "Try again in 24 hours." in answer.text
        return answer.status_code

    answers = [shown(code) for code in ("0", code_of(secret), "0", "0")]
    assert answers == [422, 303, 422, 422]
    assert shown(code_of(secret, 1)) == 429
    person.set_password(PASSWORD)
    person.save()
    assert shown(code_of(secret, 1)) == 303, "a new password begins a new count"


def test_a_half_login_ends_with_time_password_or_account() -> None:
    person, secret = with_an_app()
    late, changed, off = (password_of(person)[0] for _ in range(3))
    session = late.session
    session[HALF] = {**session[HALF], "at": int(time.time()) - 301}
    session.save()
    assert late.post(reverse(SECOND), {"code": code_of(secret)})["Location"] == reverse("login")
    User.objects.filter(pk=person.pk).update(is_active=False)
    assert off.post(reverse(SECOND), {"code": code_of(secret)})["Location"] == reverse("login")
    person.set_password("another-one-1")
    person.is_active = True
    person.save()
    assert changed.post(reverse(SECOND), {"code": code_of(secret)})["Location"] == reverse("login")
    assert Client().get(reverse(SECOND))["Location"] == reverse("login")


def test_an_app_is_kept_once_a_code_of_it_was_shown() -> None:
    client, _ = password_of(a_person("Viewers"))
    place = reverse("second-factor-app")
    page = client.get(place).text
    secret = unseal(client.session[BEGUN])
    assert secret in page
    assert "data:image/svg+xml" in page
    wrong = client.post(place, {"name": "Mine", "code": "0"})
    assert wrong.status_code == 422
    assert secret in wrong.text, "the same one: the app has it by now"
    shown = client.post(place, {"name": "Mine", "code": code_of(secret)})
    assert len(re.findall(r"\b[a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4}\b", shown.text)) == 10
    app = SecondFactor.objects.get(kind="app")
    assert app.secret == secret
    changes = ConfigurationChange.objects.filter(kind="user")
    assert [row.after for row in changes.order_by("pk")] == [
        {"second factor": "authenticator app Mine"},
        {"second factor": "recovery codes"},
    ]
    assert "Mine" in client.get(reverse("second-factors")).text


def test_a_recovery_code_counts_once_and_new_ones_replace_the_old() -> None:
    person, _ = with_an_app()
    old, codes = factors.new_codes(person), factors.new_codes(person)
    assert len(set(codes)) == 10
    client, _ = password_of(person)
    assert client.post(reverse(SECOND), {"code": old[0]}).status_code == 422
    assert client.post(reverse(SECOND), {"code": codes[0].upper()}).status_code == 303
    again, _ = password_of(person)
    assert again.post(reverse(SECOND), {"code": codes[0]}).status_code == 422
    kept = str(SecondFactor.objects.get(kind="codes").data)
    assert not [code for code in codes if code in kept or code.replace("-", "") in kept]


def test_who_must_have_one_is_led_to_it_before_anything_else(settings: Any) -> None:
    settings.SLUICE_SECOND_FACTOR_ROLES = ("Administrators",)
    viewer, _ = password_of(a_person("Viewers"))
    assert is_in(viewer)
    client, _ = password_of(a_person("Administrators"))
    place = reverse("second-factors")
    for path in (reverse("queues"), reverse("people"), "/admin/"):
        answer = client.get(path)
        assert (answer.status_code, answer["Location"]) == (303, place)
    assert client.post(reverse("pause", args=["any"])).status_code == 403
    assert "Your role needs a second factor" in client.get(place).text
    client.get(reverse("second-factor-app"))
    secret = unseal(client.session[BEGUN])
    client.post(reverse("second-factor-app"), {"name": "Mine", "code": code_of(secret)})
    assert is_in(client)
    root, _ = password_of(User.objects.create_superuser("root", password=PASSWORD))
    assert not is_in(root)
    number = SecondFactor.objects.get(kind="app").pk
    client.post(reverse("second-factor-remove", args=[number]))
    assert not is_in(client), "without it the way leads there again"
    assert not SecondFactor.objects.exists(), "recovery codes alone are of no use"


def test_a_role_that_is_none_is_told_to_administrators(settings: Any) -> None:
    settings.SLUICE_SECOND_FACTOR_ROLES = ("Administrator",)
    client, _ = password_of(a_person("Administrators"))
    assert "names no role of this installation" in client.get(reverse("people")).text


def test_an_administrator_helps_who_has_lost_theirs_but_nobody_above() -> None:
    person, _ = with_an_app()
    root = User.objects.create_superuser("root", password=PASSWORD)
    secret = factors.new_secret()
    assert factors.add_app(root, secret, code_of(secret), "Mine")
    client, _ = password_of(a_person("Administrators"))
    for one in (person, root):
        client.post(reverse("person-second-factors-remove", args=[one.pk]), {"reason": "lost"})
    assert [row.person for row in SecondFactor.objects.all()] == [root]
    assert password_of(person)[1]["Location"] == reverse("overview")
    assert ConfigurationChange.objects.filter(reason="lost").count() == 1


def test_kinds_that_are_not_offered_cannot_be_added(settings: Any) -> None:
    settings.SLUICE_SECOND_FACTORS = ("app",)
    client, _ = password_of(a_person("Viewers"))
    assert "Add a passkey" not in client.get(reverse("second-factors")).text
    assert client.get(reverse("second-factor-passkey")).status_code == 404
    assert client.get(reverse("second-factor-app")).status_code == 200


def of_a_browser(attestation: bytes) -> str:
    """What a browser says of a passkey, but for what an authenticator says in it."""
    said = {"type": "webauthn.create", "challenge": "AAAA", "origin": "http://testserver"}
    parts = {"clientDataJSON": json.dumps(said).encode(), "attestationObject": attestation}
    response = {name: urlsafe_b64encode(part).decode().rstrip("=") for name, part in parts.items()}
    return json.dumps({"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": response})


UNHEARD_OF: Final = {
    "nothing": "{}",
    "no JSON": "[",
    "null": "null",
    "a part": '{"id": "x"}',
    "long": "x" * 30_000,
    "deep": "[" * 5_000,
    "other types": '{"id": 1, "rawId": [], "type": {}, "response": "x"}',
    "a list as response": '{"id": "AAAA", "rawId": "AAAA", "response": []}',
    "no CBOR": of_a_browser(b""),
    "CBOR cut short": of_a_browser(b"\xa3"),
    "a number cut short": of_a_browser(b"\x1a\x00"),
    "deep CBOR": of_a_browser(b"\x81" * 5_000),
}


@pytest.mark.parametrize("answer", UNHEARD_OF.values(), ids=UNHEARD_OF)
def test_what_no_browser_would_say_of_a_passkey_is_refused(answer: str) -> None:
    client, _ = password_of(a_person("Viewers"))
    place = reverse("second-factor-passkey")
    client.get(place)
    assert client.post(place, {"name": "Mine", "credential": answer}).status_code == 422
    assert not SecondFactor.objects.exists()


def shown_by(authenticator: bytes) -> str:
    """What a browser says when a passkey is shown, but for what the authenticator says in it."""
    said = {"type": "webauthn.get", "challenge": "AAAA", "origin": "http://testserver"}
    parts = {"clientDataJSON": json.dumps(said).encode(), "authenticatorData": authenticator}
    response = {name: urlsafe_b64encode(part).decode().rstrip("=") for name, part in parts.items()}
    response["signature"] = "AAAA"
    return json.dumps({"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": response})


@pytest.mark.parametrize("answer", ["[" * 5_000, shown_by(b""), shown_by(b"\0" * 32 + b"\xff")])
def test_what_no_browser_would_say_lets_nobody_in(answer: str) -> None:
    person = a_person("Viewers", f"person-{uuid.uuid4().hex}")
    public = ES256.from_cryptography_key(ec.generate_private_key(ec.SECP256R1()).public_key())
    key = bytes(AttestedCredentialData.create(bytes(16), b"id", public))
    factors.add_passkey(person, b64encode(key).decode(), "Mine")
    client, _ = password_of(person)
    client.get(reverse(SECOND))
    assert client.post(reverse(SECOND), {"credential": answer}).status_code == 422
    assert not is_in(client)
