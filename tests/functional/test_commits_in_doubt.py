"""Commits in doubt as people meet them: on the outbox page, on the overview, by a notice.

How: a transaction is prepared under the name that a run would have given it, and left.
"""

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core import mail
from django.db import connection
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone

from crontasks.models import Heartbeat
from crontasks.notices import book, conditions
from integration.http_api.errors import MAY_BE_STORED
from integration.models import ExternalSystem, OutboxChange, Queue
from integration.policy.branches import Branch, Second
from integration.selectors.outbox import branches
from integration.selectors.outbox.branches import LEFT_AFTER_SECONDS, commits_in_doubt
from integration.store.sessions import raw_connection
from tests.support.builders import a_brief_queue
from tests.support.celery_world import eventually
from tests.support.http_api import problem
from tests.support.kafka_world import Kafka
from tests.support.operator_api import a_program, facts
from tests.support.prepared import prepare, roll_back
from tests.support.rows import a_place, a_queue_row, some_live_processes
from tests.support.set_up import limited_to, logged_in
from tests.support.world.models import Unique

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
ROW = f"INSERT INTO {Unique._meta.db_table} (name) VALUES ('once')"
WHAT = "A commit of orders, partition 0, is in doubt"


@pytest.fixture
def queue() -> Iterator[Queue]:
    system = ExternalSystem.objects.create(name="partner")
    made = a_queue_row("continuous", name="orders", two_phase=True, system=system)
    a_place(made)
    a_place(a_queue_row(name="others", system=ExternalSystem.objects.create(name="other")))
    yield made
    roll_back()


@pytest.fixture
def name(queue: Queue) -> str:
    """A batch up to offset 14, which also wrote to a second database."""
    second = Second("ledger", 4711)
    branch = Branch(settings.SLUICE_DEPLOYMENT, queue.pk, 0, 15, 3, 9, uuid.uuid4(), second)
    prepare(str(branch), ROW)
    return str(branch)


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared is older than the limit at once."""
    monkeypatch.setattr(branches, "LEFT_AFTER_SECONDS", 0.0)


@pytest.fixture
def waiting(name: str) -> Iterator[None]:
    """A session that waits for what the branch has locked."""

    def write() -> None:
        with raw_connection("waits") as session:
            pid.append(session.info.backend_pid)
            with suppress(psycopg.errors.QueryCanceled):
                session.execute(ROW)

    pid: list[int] = []
    thread = threading.Thread(target=write)
    thread.start()
    with raw_connection("looks") as session:
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE 0 = ANY(pg_blocking_pids(pid))"
        eventually(lambda: session.execute(blocked).fetchone() == (1,))
        yield
        session.execute("SELECT pg_cancel_backend(%s)", pid)
    thread.join(20)


def test_who_is_between_two_commits_is_not_in_doubt(name: str) -> None:
    assert LEFT_AFTER_SECONDS == 10
    assert commits_in_doubt() == []
    assert WHAT not in logged_in().get(reverse("outbox")).text


@pytest.mark.usefixtures("old", "waiting")
def test_what_was_left_is_shown_with_all_that_hangs_on_it(name: str) -> None:
    [found] = commits_in_doubt()
    assert timezone.now() - found.since < timedelta(minutes=1)
    assert (found.name, found.queue, found.partition) == (name, "orders", 0)
    assert (found.last_offset, found.second) == (14, "ledger")
    assert (found.tables, found.waiting) == ((Unique._meta.db_table,), 1)
    [told] = facts(a_program().get("/outbox/commits-in-doubt"))["commits"]
    assert (told["name"], told["last_offset"], told["second"]) == (name, 14, "ledger")
    page = " ".join(logged_in().get(reverse("outbox")).text.split())
    for words in (
        WHAT,
        "up to offset 14",
        f"rows stay locked in {Unique._meta.db_table}.",
        "A part of it is in the database ledger",
        "1 session of the database waits for that",
        f"<code>{name}</code>",
    ):
        assert words in page


@pytest.mark.usefixtures("old", "name")
def test_the_overview_tells_of_it_and_leads_to_the_decision() -> None:
    some_live_processes()
    page = logged_in("Viewers").get("/").text
    assert WHAT in page
    assert f"{reverse('outbox')}?queue=orders" in page


@pytest.mark.usefixtures("old", "name")
def test_who_may_not_see_the_queue_is_told_nothing_and_who_is_limited_decides_nothing(
    name: str,
) -> None:
    some_live_processes()
    others = limited_to(ExternalSystem.objects.get(name="other"))
    own = limited_to(ExternalSystem.objects.get(name="partner"))
    assert "orders" not in others.get("/").text
    assert WHAT in own.get("/").text
    for theirs in (others, own):
        assert name not in theirs.get(reverse("outbox")).text
        asked = {"branch": name, "word": "commit", "reason": "I know."}
        assert theirs.post(reverse("decide-branch"), asked).status_code == 404
    viewer = logged_in("Viewers")
    assert viewer.post(reverse("decide-branch"), asked).status_code == 403
    assert [one.name for one in commits_in_doubt()] == [name]


@pytest.fixture
def forgotten(servers: Any, queue: Queue) -> list[str]:
    """Two batches of which Kafka, which is there to be asked, knows nothing."""
    read = a_brief_queue(Kafka(servers.kafka_bootstrap), name="forgotten", two_phase=True)
    names = []
    for n in range(2):
        branch = Branch(settings.SLUICE_DEPLOYMENT, read.pk, 0, 5 * (n + 1), 3, n, uuid.uuid4())
        names.append(str(branch))
        prepare(names[-1], f"INSERT INTO {Unique._meta.db_table} (name) VALUES ('batch {n}')")
    return names


@pytest.mark.usefixtures("old")
def test_who_knows_the_end_decides_and_it_is_so(forgotten: list[str]) -> None:
    lost, done = forgotten
    program, page = a_program(), logged_in("Operators", name="olga")

    def over_http(name: str, choice: str, reason: str = "It is in the topic.") -> HttpResponse:
        asked = {"name": name, "choice": choice, "reason": reason}
        return program.post("/outbox/commits-in-doubt/decisions", asked)

    assert over_http(lost, "rollback", reason=" ").status_code == 422
    assert over_http(lost, "forget").status_code == 422
    assert {one.name for one in commits_in_doubt()} == {lost, done}
    assert facts(over_http(done, "commit")) == {"name": done, "choice": "commit"}
    asked = {"branch": lost, "word": "roll-back", "reason": "It is not in the topic."}
    assert page.post(reverse("decide-branch"), asked).status_code == 303
    assert list(Unique.objects.values_list("name", flat=True)) == ["batch 1"]
    assert commits_in_doubt() == []
    problem(over_http(lost, "commit"), 409, "BRANCH_NOT_IN_DOUBT")
    told = OutboxChange.objects.order_by("id").values_list("actor", "to_state", "reason")
    assert list(told) == [
        (program.person.username, "COMMIT", "It is in the topic."),
        ("olga", "ROLLBACK", "It is not in the topic."),
    ]


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize(
    ("sqlstate", "code"), [("40001", "SERIALIZATION_FAILURE"), ("40P01", "ROW_BUSY")]
)
def test_what_is_decided_may_be_stored_whatever_fails_later(
    forgotten: list[str], sqlstate: str, code: str
) -> None:
    """Also with a key: it is decided by another session than what is undone."""
    asked = {"name": forgotten[0], "choice": "commit", "reason": "It is in the topic."}
    address = "/outbox/commits-in-doubt/decisions"
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$; CREATE TRIGGER fails "
                "BEFORE INSERT ON integration_outboxchange FOR EACH ROW EXECUTE FUNCTION fails()"
            )
        answer = a_program().post(address, asked, Idempotency_Key="k")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION IF EXISTS fails CASCADE")
    assert MAY_BE_STORED in problem(answer, 503, code)["detail"]
    assert [one.name for one in commits_in_doubt()] == [forgotten[1]]


@pytest.mark.usefixtures("old", "name", "valkey")
def test_people_are_told_once_when_it_begins_and_once_when_it_is_over(settings: Any) -> None:
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]
    now = timezone.now()
    Heartbeat.objects.create(kind="beat", node="b", pid=1, started_at=now, seen_at=now)

    def look() -> None:
        book.settle(conditions.seen_by_workers(is_settled=False), conditions.WORKER_KINDS)

    look()
    look()
    roll_back()
    look()
    told = [sent.subject.removeprefix(f"[{settings.SLUICE_DEPLOYMENT}] ") for sent in mail.outbox]
    assert told == ["Queue blocked: orders[0]", "Over: Queue blocked: orders[0]"]
    assert "up to offset 14 is prepared in the database" in mail.outbox[0].body
    assert "decide on the outbox page" in mail.outbox[0].body
