"""Lists that are read from a standby: near enough, said so, and else from the primary."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.urls import reverse

from console.layout.standby import WROTE_COOKIE
from integration.models import Queue
from integration.store import replica
from integration.store.reads import reading_standby
from integration.store.replica import REPLICA
from tests.support.rows import a_person, a_queue_row
from tests.support.standby import Pair, Unconfirmed, replicated

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
LISTS = (
    *("queues", "failures", "failure-list", "tracking", "operations", "cron", "bulk", "changes"),
    *("charts", "outbox"),
)
SAID = "Read from a standby of the database"


@pytest.fixture
def pair(transactional_db: None, settings: Any) -> Iterator[Pair]:
    with replicated(Unconfirmed) as started, started.as_default(), started.as_replica():
        settings.SLUICE_REPLICA = "replica"
        # A look every two seconds may find what was written a moment ago not there yet, and a
        # busy machine stands still.
        settings.SLUICE_REPLICA_LAG_SECONDS = 15.0
        settings.DATABASE_ROUTERS = ["integration.store.reads.Router"]
        REPLICA.forget()
        yield started
    REPLICA.forget()


def logged_in() -> Client:
    person = Client()
    person.force_login(a_person("Administrators"))
    return person


def test_lists_are_read_from_the_standby_until_it_is_away_or_too_far_behind(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    person = logged_in()
    a_queue_row(name="first")
    pair.wait_until_caught_up()
    REPLICA.forget()
    with caplog.at_level(logging.WARNING, logger=replica.__name__):
        # Reading writes, too (PostgreSQL tidies pages up), so that the first look may find it late.
        until(lambda: SAID in person.get(reverse("queues")).text)
        for name in LISTS:
            page = person.get(reverse(name))
            assert (page.status_code, SAID in page.text) == (200, True), name
        assert "first" in person.get(reverse("queues")).text
        assert said_of_it(caplog) == [], "each of them can be read from there"

        # Whoever has done something sees it at once.
        person.post(reverse("theme"), {"theme": "dark", "next": "/"})
        assert WROTE_COOKIE in person.cookies
        assert SAID not in person.get(reverse("queues")).text
        del person.cookies[WROTE_COOKIE]
        assert SAID in person.get(reverse("queues")).text

        pair.cut_off_standby()
        a_queue_row(name="second")
        until(lambda: SAID not in person.get(reverse("queues")).text)
        assert "second" in person.get(reverse("queues")).text
        assert said_of_it(caplog) == []

    pair.standby.kill()
    REPLICA.forget()
    with caplog.at_level(logging.WARNING, logger=replica.__name__):
        for _ in range(2):
            page = person.get(reverse("queues"))
            assert (page.status_code, SAID in page.text) == (200, False)
        assert len(said_of_it(caplog)) == 1, "it is left alone for a while"


def said_of_it(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == replica.__name__]


def test_what_is_decided_is_never_read_from_it(pair: Pair) -> None:
    """Whose rights were taken a moment ago sees nothing more, whatever the standby still says.

    And what was read there is written to the primary, where it is.
    """
    person = logged_in()
    queue = a_queue_row(name="first")
    pair.wait_until_caught_up()
    with reading_standby():
        there = Queue.objects.get(name="first")
    assert there._state.db == "replica"
    there.description = "changed"
    there.save()
    assert Queue.objects.get(name="first").description == "changed"

    pair.cut_off_standby()
    queue.delete()
    assert person.get(reverse("queue", args=["first"])).status_code == 404
    User.objects.update(is_active=False)
    assert person.get(reverse("queues")).status_code == 302


def test_a_database_that_is_no_standby_of_ours_is_not_read(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """A promoted one takes writes of its own: what it says is not what is."""
    pair.standby.promote()
    with caplog.at_level(logging.WARNING, logger=replica.__name__):
        assert REPLICA.lag_seconds() is None
    assert "no standby of this database" in caplog.text


def until(is_so: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_without_one_nothing_is_asked(db: None, settings: Any) -> None:
    settings.SLUICE_REPLICA = ""
    assert REPLICA.lag_seconds() is None
    assert "replica" not in connections
