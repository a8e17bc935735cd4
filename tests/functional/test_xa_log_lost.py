"""A log of transactions that lost branches: nothing is decided by what is left of it.

How: a branch is prepared, and the log's topic is deleted, created anew, emptied, or set to forget;
whoever looks then, the process that had read the log or one that begins, is told, until a person
has accepted the log as it is.
"""

import time

import pytest
from django.db.models.functions import Now
from django.urls import reverse

from integration import connections
from integration.models import ConfigurationChange, ConnectionFactory, Provider, XaDecision
from integration.xa import resource as resources
from integration.xa.errors import (
    XaError,
    XaLogReplacedError,
    XaTopicMissingError,
    XaTopicUnsafeError,
    XaUnknownError,
    xa_code,
)
from integration.xa.resource import XaResource
from integration.xa.xid import Xid
from tests.support.kafka_world import Kafka
from tests.support.set_up import logged_in
from tests.support.xa import (  # noqa: F401 - fixtures are found by their names
    elsewhere,
    given_broker,
    given_log,
    given_other,
    given_topic,
    prepared,
    read,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
COMPACTED = {"cleanup.policy": "compact"}


def log_of() -> str:
    return ConnectionFactory.objects.get().xa_log_topic


def deleted(broker: Kafka) -> None:
    name, deadline = log_of(), time.monotonic() + 20
    broker.delete(name)
    while name in broker.admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def created_anew(broker: Kafka) -> None:
    deleted(broker)
    broker.topic(name=log_of(), **COMPACTED)


def emptied(broker: Kafka) -> None:
    """As one that was set to delete for a while, and is as it was again."""
    name = log_of()
    broker.configure(name, **{"cleanup.policy": "delete"})
    broker.delete_records(name, broker.end(name))
    broker.configure(name, **COMPACTED)


def refused(by: XaResource, xid: Xid, error: type[XaError]) -> None:
    """No call says anything about a branch: neither that it is over nor that there is none.

    The coordinator is to ask again, and takes it neither for done nor for undone.
    """
    for call in (by.commit, by.rollback, by.forget, by.prepare, by.start):
        with pytest.raises(error) as told:
            call(xid)
        assert xa_code(told.value) == ("XAER_RMFAIL", -7)
    with pytest.raises(error):
        by.recover()


@pytest.mark.parametrize("lose", [created_anew, emptied])
def test_a_log_that_lost_its_branches_decides_nothing(broker, topic, other, lose):
    resource = connections.lookup("payments").xa()
    xid, second = prepared(topic, b"1"), prepared(topic, b"2")
    assert len(other.recover()) == 2
    XaDecision.objects.create(xid=str(xid), factory="payments", decided_at=Now())
    lose(broker)
    begins = elsewhere()
    for by in (other, begins):
        refused(by, xid, XaLogReplacedError)
    begins.close()
    assert connections.recover_all() == {"failed": 1}
    assert XaDecision.objects.filter(xid=str(xid)).exists()
    assert read(broker, topic) == []
    # Who has prepared it, and lives, knows what it promised.
    resource.commit(xid)
    assert read(broker, topic) == [1]
    with pytest.raises(XaLogReplacedError):
        other.commit(second)


def test_a_log_that_is_gone_decides_nothing(broker, topic, other):
    xid = prepared(topic, b"1")
    assert len(other.recover()) == 1
    deleted(broker)
    refused(other, xid, XaTopicMissingError)
    assert read(broker, topic) == []


def test_a_log_that_ends_before_what_was_read_is_told_to_all(broker, topic, other):
    """As after the election of a copy that lacked records; no broker does it when it is asked."""
    xid = prepared(topic, b"1")
    assert len(other.recover()) == 1
    other._log._position += 1_000
    with pytest.raises(XaLogReplacedError):
        other.commit(xid)
    assert connections.recover_all() == {"failed": 1}


def test_a_log_that_is_compacted_no_more_is_told_within_a_minute(broker, topic, other, monkeypatch):
    xid = prepared(topic, b"1")
    assert len(other.recover()) == 1
    broker.configure(log_of(), **{"cleanup.policy": "compact,delete"})
    with pytest.raises(XaTopicUnsafeError):
        other.recover()
    assert connections.recover_all() == {"failed": 1}
    # Recovery looks each time, everybody else now and then.
    begins = elsewhere()
    refused(begins, xid, XaTopicUnsafeError)
    begins.close()
    monkeypatch.setattr(resources, "CHECKED_SECONDS", 0.0)
    refused(other, xid, XaTopicUnsafeError)
    broker.configure(log_of(), **COMPACTED)
    other.commit(xid)
    assert read(broker, topic) == [1]


def test_a_topic_that_was_looked_at_in_vain_is_looked_at_again(broker, topic, other):
    broker.configure(log_of(), **{"cleanup.policy": "delete"})
    for _ in range(2):
        with pytest.raises(XaTopicUnsafeError):
            other.start(Xid.fresh(1))


def test_a_decision_that_cannot_be_carried_out_is_kept_for_people(broker, topic, other):
    """The database has committed: that is no error of the block, which cannot be done again."""
    factory = connections.lookup("payments")

    def lose(step: str) -> None:
        if step == "decided":
            [branch] = other.recover()
            created_anew(broker)
            # Somebody takes the id: who commits has to look into the log.
            other._slots.of(branch.owner).close()

    factory.xa().observe(lose)
    with factory.atomic() as session:
        Provider.objects.create(name="one", bootstrap_servers="x:1")
        session.send(topic, {"n": 1})
    assert Provider.objects.filter(name="one").exists()
    assert read(broker, topic) == []
    [decision] = XaDecision.objects.all()
    page = logged_in().get(reverse("connection", args=[factory_row().pk]), {"branches": 1})
    assert "XA_LOG_REPLACED" in page.text
    assert decision.xid in page.text


def factory_row() -> ConnectionFactory:
    return ConnectionFactory.objects.get()


def test_a_person_accepts_the_log_as_it_is_with_a_reason(broker, topic, other):
    xid = prepared(topic, b"1")
    created_anew(broker)
    client, row = logged_in(name="anna"), factory_row()
    page, accept = (reverse(name, args=[row.pk]) for name in ("connection", "connection-log"))
    assert accept in client.get(page, {"branches": 1}).text
    assert client.post(accept, {"reason": " "}).status_code == 422
    assert logged_in("Viewers").post(accept, {"reason": "x"}).status_code == 403
    refused(other, xid, XaLogReplacedError)
    assert not ConfigurationChange.objects.exists()
    assert client.post(accept, {"reason": "The bank has both."}).status_code == 303
    change = ConfigurationChange.objects.get()
    assert (change.actor, change.reason) == ("anna", "The bank has both.")
    # Who has read the former one looks anew, as does who begins.
    for by in (other, connections.lookup("payments").xa()):
        with pytest.raises(XaUnknownError):
            by.commit(xid)
    assert "There are none" in client.get(page, {"branches": 1}).text
    after = prepared(topic, b"2")
    other.commit(after)
    assert read(broker, topic) == [2]
    created_anew(broker)
    refused(other, xid, XaLogReplacedError)


def test_another_topic_for_the_log_is_a_log_of_its_own(broker, topic):
    prepared(topic, b"1")
    ConnectionFactory.objects.update(xa_log_topic=broker.topic(**COMPACTED), changed_at=Now())
    resource = connections.lookup("payments").xa()
    assert resource.recover() == []
    resource.commit(prepared(topic, b"2"))
    assert read(broker, topic) == [2]
