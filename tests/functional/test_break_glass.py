"""The way in when no other is left: `manage.py break_glass` and its one-time code."""

import io
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import ConsoleSession, LoginCode
from integration.models import ConfigurationChange
from tests.support.rows import a_person, an_address

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def a_code(name: str, **options: Any) -> str:
    out = io.StringIO()
    options = {"reason": "the provider is down", **options}
    call_command("break_glass", name, stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue().strip()


def entered(code: str, client: Client | None = None) -> Any:
    return (client or Client()).post(reverse("login-code"), {"code": code})


def test_a_code_lets_its_account_in_once(caplog: pytest.LogCaptureFixture) -> None:
    olga = a_person("Operators", "olga")
    with caplog.at_level(logging.WARNING):
        code = a_code("olga")
        client = Client()
        assert entered(code, client)["Location"] == reverse("overview")
    assert client.get(reverse("queues")).status_code == 200
    assert ConsoleSession.objects.get().way == "code"
    again = entered(code)
    assert again.status_code == 422
    assert "LOGIN_CODE_REFUSED" in again.text
    assert "break-glass" in caplog.text
    assert "the provider is down" in caplog.text
    assert code not in caplog.text
    [made] = ConfigurationChange.objects.filter(subject=str(olga.pk))
    assert made.reason == "the provider is down"
    assert code not in str(made.__dict__)
    used = ConfigurationChange.every.get(action="login")
    assert (used.name, used.reason) == ("olga", "By a one-time code.")


def test_the_session_ends_after_its_minutes() -> None:
    a_person("Operators", "olga")
    client = Client()
    entered(a_code("olga", session_minutes=5), client)
    left = client.session.get_expiry_date() - timezone.now()
    assert timedelta(minutes=4) < left <= timedelta(minutes=5)
    client.get(reverse("queues"))
    assert client.session.get_expiry_date() - timezone.now() <= left


def test_a_new_name_becomes_an_administrator_without_a_password() -> None:
    client = Client()
    entered(a_code("rescue"), client)
    rescue = User.objects.get(username="rescue")
    assert (rescue.is_superuser, rescue.has_usable_password()) == (True, False)
    assert client.get(reverse("people")).status_code == 200
    created = ConfigurationChange.objects.get(action="create", name="rescue")
    assert created.after is not None
    assert created.after["superuser"] is True


def test_a_code_that_is_late_wrong_or_of_somebody_switched_off_is_refused() -> None:
    olga = a_person("Operators", "olga")
    late, off = a_code("olga"), a_code("olga")
    LoginCode.objects.filter(prefix=late[:15]).update(expires_at=timezone.now())
    User.objects.filter(pk=olga.pk).update(is_active=False)
    for code in (late, off, f"{off}x", "sluice_abcdefgh_x", "", "\N{SNOWMAN}"):
        assert entered(code).status_code == 422
    with pytest.raises(CommandError, match="may not log in"):
        a_code("olga")


def test_the_command_wants_a_reason_and_sensible_minutes() -> None:
    a_person("Operators", "olga")
    with pytest.raises(CommandError, match="--reason"):
        call_command("break_glass", "olga")
    for minutes in (0, 1_441):
        with pytest.raises(CommandError, match="between 1 and 1440"):
            a_code("olga", valid_minutes=minutes)


def test_codes_are_counted_by_address(settings: Any) -> None:
    settings.SLUICE_LOGIN_TRIES = 1
    client = Client(REMOTE_ADDR=an_address())
    told = [entered("sluice_abcdefgh_x", client).status_code for _ in range(6)]
    assert told == [422] * 5 + [429]
