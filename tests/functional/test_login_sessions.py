"""How long a login lasts: an idle limit and an absolute one."""

import time
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.people.session_limits import BEGAN, SEEN
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

HOUR = 3_600


def somebody(**moved: float) -> Client:
    """Logged in; each stored moment is moved into the past by so many seconds."""
    client = Client()
    client.force_login(a_person("Viewers"))
    session = client.session
    for name, seconds in moved.items():
        session[{"began": BEGAN, "seen": SEEN}[name]] = int(time.time() - seconds)
    session.save()
    return client


def is_in(client: Client, **headers: str) -> bool:
    return client.get(reverse("account"), headers=headers).status_code == 200


def test_a_session_ends_when_it_was_idle_for_too_long() -> None:
    assert is_in(somebody(seen=7 * HOUR))
    idle = somebody(seen=8 * HOUR + 1)
    answer = idle.get(reverse("account"))
    assert answer.status_code == 302
    assert answer["Location"].startswith(reverse("login"))
    assert not is_in(idle)


def test_a_session_ends_after_its_longest_time_however_busy_it_was() -> None:
    assert is_in(somebody(began=23 * HOUR))
    assert not is_in(somebody(began=24 * HOUR + 1, seen=0))


def test_the_limits_are_settings(settings: Any) -> None:
    settings.SLUICE_SESSION_IDLE_MINUTES = 10
    assert not is_in(somebody(seen=601))
    settings.SLUICE_SESSION_HOURS = 1
    assert not is_in(somebody(began=HOUR + 1))


def test_a_page_asked_for_by_a_person_begins_the_idle_time_anew() -> None:
    client = somebody(seen=HOUR)
    assert is_in(client)
    assert time.time() - client.session[SEEN] < HOUR / 2


def test_a_page_that_refreshes_its_figures_by_itself_does_not() -> None:
    client = somebody(seen=HOUR)
    assert is_in(client, hx_request="true")
    assert time.time() - client.session[SEEN] >= HOUR


def test_figures_asked_for_after_the_end_load_the_page_anew() -> None:
    answer = somebody(seen=9 * HOUR).get(reverse("account"), headers={"hx-request": "true"})
    assert answer["HX-Refresh"] == "true"


def test_a_session_of_before_these_limits_gets_them() -> None:
    client = somebody()
    session = client.session
    del session[BEGAN], session[SEEN]
    session.save()
    assert is_in(client)
    assert BEGAN in client.session
