"""Branches that wait for somebody else: left alone, and people are told once they are late.

How: branches are prepared by a foreign coordinator, by another deployment that shares the log, and
by ours; then the cron task comes, as a tick brings it, and a person looks.
"""

from datetime import timedelta
from html import unescape

import pytest
from django.conf import settings as live
from django.core import mail
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks import ticks
from crontasks.models import CronInstance, CronRun, Notice
from crontasks.notices import book, conditions
from integration import connections
from integration.models import ConnectionFactory, Deployment, XaDecision
from integration.xa.decisions import FORMAT, fresh_xid
from integration.xa.xid import Xid
from tests.support.rows import a_place, a_queue_row, some_live_processes
from tests.support.set_up import logged_in
from tests.support.xa import (  # noqa: F401 - fixtures are found by their names
    LOGS,
    elsewhere,
    given_broker,
    given_log,
    given_other,
    given_topic,
    prepared,
    read,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
MINUTE = timedelta(minutes=1)


def begun(topic: str, xid: Xid, *, is_prepared: bool = True) -> Xid:
    """A branch as another process of this deployment leaves it."""
    resource = elsewhere()
    resource.start(xid)
    resource.send(xid, topic, b"1")
    resource.end(xid)
    if is_prepared:
        resource.prepare(xid)
    resource.close()
    return xid


@pytest.fixture
def theirs(topic: str, settings) -> list[Xid]:
    """What another deployment has left in the log that it shares: prepared, and started."""
    own, settings.SLUICE_DEPLOYMENT = settings.SLUICE_DEPLOYMENT, f"{live.SLUICE_DEPLOYMENT}.7"
    found = [begun(topic, fresh_xid("default"), is_prepared=each) for each in (True, False)]
    settings.SLUICE_DEPLOYMENT = own
    return found


def late() -> None:
    """Whatever was started is older than a transaction may last."""
    ConnectionFactory.objects.update(xa_expires_seconds=0.0, changed_at=Now())


def tick() -> CronRun | None:
    """The shipped instance, at the next minute."""
    instance = CronInstance.objects.get(task="xa_recovery")
    ticks.tick(instance.pk, (instance.last_scheduled_at or timezone.now()) + MINUTE)
    return CronRun.objects.filter(instance=instance).order_by("-id").first()


def card(client: Client, **query: int) -> str:
    address = reverse("connection", args=[ConnectionFactory.objects.get().pk])
    return " ".join(unescape(client.get(address, query).text).split())


def test_it_comes_every_minute_as_it_is_shipped() -> None:
    instance = CronInstance.objects.get(task="xa_recovery")
    assert (instance.interval_seconds, instance.active) == (60, True)
    assert "Every minute" in logged_in().get(reverse("cron-instance", args=[instance.pk])).text


@pytest.mark.parametrize("log", LOGS)
def test_what_another_deployment_left_in_a_log_that_is_shared_is_left_to_it(broker, topic, theirs):
    ours = begun(topic, fresh_xid("default"), is_prepared=False)
    late()
    assert connections.recover_all() == {"foreign": 1, "started": 1}
    left = [branch.xid for branch in connections.lookup("payments").xa().branches()]
    assert left == theirs, ours
    client = logged_in()
    page = card(client, branches=1)
    assert page.count(f"It is decided by the deployment {live.SLUICE_DEPLOYMENT}.7.") == 2
    assert (page.count('value="commit"'), page.count('value="rollback"')) == (1, 2)
    # A deployment that is no more left a started one, too.
    asked = {"xid": str(theirs[1]), "choice": "rollback", "reason": "It is switched off."}
    address = reverse("connection-branch", args=[ConnectionFactory.objects.get().pk])
    assert client.post(address, asked).status_code == 303
    assert connections.recover_all() == {"foreign": 1}
    assert read(broker, topic) == []


def test_in_a_copy_of_the_database_nothing_is_settled(broker, topic):
    xid = begun(topic, fresh_xid("default"))
    Deployment.objects.update(environment="production")
    assert connections.recover_all() == {}
    assert tick() is None
    Deployment.objects.update(environment=live.SLUICE_ENVIRONMENT)
    assert connections.recover_all() == {"rollback": 1}
    assert xid not in [branch.xid for branch in connections.lookup("payments").xa().branches()]


@pytest.mark.parametrize("log", LOGS)
def test_people_are_told_of_a_branch_whose_coordinator_does_not_come_back(
    broker, topic, settings, valkey
):
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]
    a_place(a_queue_row(name="orders"))
    some_live_processes()
    xid, client = prepared(topic, b"1"), logged_in("Viewers")
    tick()
    assert not Notice.objects.exists(), "a coordinator has its time"
    late()
    tick()
    notice = Notice.objects.get()
    assert (notice.kind, notice.subject) == ("BRANCHES", "connection payments")
    for words in (str(xid), "1 branch is prepared", "another coordinator"):
        assert words in notice.text
    assert notice.text in card(client)
    overview = client.get("/").text
    assert "Transactions of the connection payments wait" in overview
    assert reverse("connection", args=[ConnectionFactory.objects.get().pk]) in overview
    assert mailed() == [], "one look is nobody's mail"
    Notice.objects.update(opened_at=F("opened_at") - 2 * MINUTE)
    tick()
    assert mailed() == ["Transactions over several resources wait: connection payments"]
    connections.lookup("payments").xa().rollback(xid)
    tick()
    assert mailed()[1:] == ["Over: Transactions over several resources wait: connection payments"]
    assert "Transactions of the connection" not in client.get("/").text


def mailed() -> list[str]:
    """What the watch has sent after one more look."""
    book.settle(conditions.seen_by_workers(is_settled=False), conditions.WORKER_KINDS)
    return [sent.subject.partition("] ")[2] for sent in mail.outbox]


def test_a_log_that_cannot_be_read_is_told(broker, topic):
    broker.delete(ConnectionFactory.objects.get().xa_log_topic)
    run = tick()
    assert run is not None
    assert run.counts == {"failed": 1}
    assert "XA_TOPIC_MISSING" in Notice.objects.get().text
    ConnectionFactory.objects.update(xa="off", changed_at=Now())
    tick()
    assert not Notice.objects.filter(closed_at=None).exists()


def test_a_foreign_name_of_ours_is_nobodys_decision(broker, topic):
    """With our format but another database: whoever that was decides, not we."""
    client = logged_in()
    strange = [Xid.fresh(FORMAT, b"sluice/no-such-database"), Xid.fresh(FORMAT, b"\xff\xfe")]
    for xid in strange:
        begun(topic, xid)
    XaDecision.objects.create(xid=str(strange[0]), factory="payments", decided_at=Now())
    assert connections.recover_all() == {"foreign": 2}
    assert read(broker, topic) == []
    assert "the database no-such-database, which is not configured" in card(client, branches=1)
