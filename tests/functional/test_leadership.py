"""Who leads when the leader does nothing any more, and what it may still do when it comes back."""

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from crontasks import leadership
from crontasks.hearts import Heart
from crontasks.leadership import Leadership, ended_if_stopped
from crontasks.models import Heartbeat, Notice
from crontasks.models.notice import NoticeKind
from crontasks.notices import book
from crontasks.notices.condition import Condition
from integration.store.locks import LockClass
from integration.store.sessions import Session, database_now, execute, raw_connection

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

KINDS = {
    LockClass.DISPATCHER: "worker",
    LockClass.BEAT: "beat",
    LockClass.IDLE: "",
}
SILENT_SECONDS = 1.0


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "STILL_SECONDS", SILENT_SECONDS)
    monkeypatch.setattr(leadership, "HEARTLESS_STILL_SECONDS", SILENT_SECONDS)
    monkeypatch.setattr(leadership, "LOOK_EVERY_SECONDS", 0.0)


class Two:
    """A leader and one that stands for the same lock."""

    def __init__(self, lock: LockClass) -> None:
        self.heart = Heart(kind=KINDS[lock] or "worker", node="first")
        self.first = Leadership(lock, "first", KINDS[lock])
        self.second = Leadership(lock, "second", KINDS[lock])
        assert self.first.stand()

    def beat(self) -> None:
        """As the leader does, but on another session: the row alone is new."""
        with connection.cursor() as cursor:
            self.heart.beat(cursor, leads=True)

    def falls_silent(self) -> None:
        time.sleep(SILENT_SECONDS * 1.5)


@pytest.fixture(params=list(KINDS), ids=[lock.name for lock in KINDS])
def two(request: pytest.FixtureRequest) -> Iterator[Two]:
    yield from standing(request.param)


@pytest.fixture
def dispatchers() -> Iterator[Two]:
    yield from standing(LockClass.DISPATCHER)


def standing(lock: LockClass) -> Iterator[Two]:
    both = Two(lock)
    yield both
    both.first.resign()
    both.second.resign()


def test_a_leader_that_does_nothing_loses_the_lead_and_learns_of_it(two: Two) -> None:
    two.beat()
    two.falls_silent()
    two.first.stand()
    assert not two.second.stand(), "it has just said something"
    two.falls_silent()
    Heartbeat.objects.update(seen_at=database_now())
    if two.first.heart:
        assert not two.second.stand(), "its heart beats"
        two.falls_silent()
    assert two.second.stand()
    with pytest.raises(psycopg.Error):
        two.first.stand()
    assert not two.first.is_held
    assert not two.first.stand(), "it stands as anybody does"
    assert two.second.stand()


def test_a_leader_whose_statement_takes_its_time_goes_on(dispatchers: Two) -> None:
    waits = threading.Thread(
        target=dispatchers.first.session().execute, args=["SELECT pg_sleep(2)"]
    )
    waits.start()
    dispatchers.falls_silent()
    assert not dispatchers.second.stand()
    waits.join()
    assert dispatchers.first.stand()


def test_the_session_of_another_role_is_left_alone_and_that_is_said_once(
    dispatchers: Two, caplog: pytest.LogCaptureFixture
) -> None:
    other = dispatchers.second.session()
    other.execute("CREATE ROLE another")
    other.execute("GRANT SELECT ON crontasks_heartbeat TO another")
    try:
        other.execute("SET ROLE another")
        dispatchers.falls_silent()
        assert [dispatchers.second.stand() for _ in range(3)] == [False] * 3
        assert dispatchers.first.stand()
        assert said(caplog) == ["LEADER_STANDS_STILL"]
    finally:
        other.execute("RESET ROLE")
        other.execute("DROP OWNED BY another")
        other.execute("DROP ROLE another")


def test_a_role_that_may_end_no_session_says_so_once_and_goes_on(
    dispatchers: Two, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes with one role, which was denied the function."""
    function = "EXECUTE ON FUNCTION pg_terminate_backend(int, bigint)"
    execute(f"REVOKE {function} FROM public")
    execute("CREATE ROLE weak LOGIN")
    execute("GRANT SELECT ON crontasks_heartbeat TO weak")

    def as_weak(name: str) -> Session:
        with raw_connection(name) as session:
            place = session.info.get_parameters() | {"user": "weak"}
        return psycopg.connect(**place, autocommit=True)

    monkeypatch.setattr(leadership, "raw_connection", as_weak)
    dispatchers.first.resign()
    try:
        assert dispatchers.first.stand()
        dispatchers.falls_silent()
        assert [dispatchers.second.stand() for _ in range(3)] == [False] * 3
        assert dispatchers.first.stand()
        assert said(caplog) == ["LEADER_STANDS_STILL"]
    finally:
        dispatchers.first.resign()
        dispatchers.second.resign()
        execute(f"GRANT {function} TO public")
        execute("DROP OWNED BY weak")
        execute("DROP ROLE weak")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.code for record in caplog.records if hasattr(record, "code")]


def test_what_a_leader_saw_before_it_was_stopped_closes_nothing(dispatchers: Two) -> None:
    blocked = Condition(NoticeKind.BLOCKED, "assets[0]", "HEAD_HELD")
    term = dispatchers.first.term
    dispatchers.falls_silent()
    assert dispatchers.second.stand()
    book.settle([blocked], {NoticeKind.BLOCKED}, lambda: None, term=dispatchers.second.term)
    book.settle([], {NoticeKind.BLOCKED}, lambda: None, term=term)
    assert Notice.objects.filter(closed_at__isnull=True).count() == 1
    book.settle([], {NoticeKind.BLOCKED}, lambda: None, term=dispatchers.second.term)
    assert not Notice.objects.filter(closed_at__isnull=True).exists()


def test_a_transaction_that_is_stopped_in_the_middle_ends_before_another_leads() -> None:
    with ended_if_stopped() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("10s",)
    assert leadership.IDLE_SECONDS < leadership.ALIVE_SECONDS
