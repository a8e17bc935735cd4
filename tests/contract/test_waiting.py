"""What is done while the database works: as long as there is time, and never in its way."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from devstack.server import Server
from integration.store.waiting import filled

pytestmark = pytest.mark.servers

BRIEF = "SELECT pg_sleep(0.05), 7"
# Answered once another session lets go of it.
PASS = "SELECT pg_advisory_xact_lock(7), 7"
SHUT, OPEN = "SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"


@pytest.fixture
def session(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as opened:  # type: ignore[attr-defined]
        yield opened


@pytest.fixture
def gate(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as opened:  # type: ignore[attr-defined]
        yield opened


class Errand:
    """Something to do `times` times; what the session was doing is not its business."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.calls = 0
        self.at_call: dict[int, Callable[[], object]] = {}

    def __call__(self) -> bool:
        self.calls += 1
        self.left -= 1
        if self.calls in self.at_call:
            self.at_call[self.calls]()
        time.sleep(0.001)
        return self.left > 0


def test_it_is_called_until_it_has_no_more_to_do(
    session: psycopg.Connection[Any], gate: psycopg.Connection[Any]
) -> None:
    errand = Errand(3)
    errand.at_call[3] = lambda: gate.execute(OPEN)
    gate.execute(SHUT)
    with filled(session, errand):
        assert session.execute(PASS).fetchall() == [("", 7)]
        assert errand.calls == 3
        assert session.execute(BRIEF).fetchall() == [("", 7)]
    assert errand.calls == 3


def test_it_ends_when_the_answer_is_there(
    session: psycopg.Connection[Any], gate: psycopg.Connection[Any]
) -> None:
    errand = Errand(10_000)
    with filled(session, errand):
        for _ in range(2):
            once = errand.calls
            gate.execute(SHUT)
            errand.at_call[once + 2] = lambda: gate.execute(OPEN)
            session.execute(PASS)
    assert 0 < once < errand.calls < 10_000


def test_outside_the_block_the_session_waits_by_itself(session: psycopg.Connection[Any]) -> None:
    errand = Errand(10_000)
    with filled(session, errand):
        pass
    session.execute(BRIEF)
    assert errand.calls == 0


def test_a_session_that_is_gone_is_told_by_its_first_statement(
    session: psycopg.Connection[Any],
) -> None:
    session.close()
    errand = Errand(3)
    with filled(session, errand), pytest.raises(psycopg.OperationalError):
        session.execute(BRIEF)
    assert errand.calls == 0


def test_a_refused_statement_is_refused_as_ever(session: psycopg.Connection[Any]) -> None:
    with filled(session, Errand(2)):
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.execute("SELECT 1 / 0 FROM pg_sleep(0.02)")
        assert session.execute("SELECT 1").fetchall() == [(1,)]


def test_copy_in_both_directions_is_left_as_it_is(session: psycopg.Connection[Any]) -> None:
    session.execute("CREATE TEMPORARY TABLE counted (n int)")
    rows = 20_000
    with filled(session, Errand(50)), session.cursor() as cursor:
        with cursor.copy("COPY counted FROM STDIN") as copy:
            for n in range(rows):
                copy.write_row((n,))
        with cursor.copy("COPY counted TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == rows
        cursor.execute("SELECT sum(n) FROM counted")
        assert cursor.fetchall() == [(sum(range(rows)),)]
