"""Branches on the page of their connection, and what people decide about them."""

import threading
from collections.abc import Callable
from contextlib import closing
from html import unescape
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from integration import connections
from integration.actions import configuration
from integration.actions.configuration import Author, stamp
from integration.actions.errors import InUseError
from integration.models import ConfigurationChange, ConnectionFactory, XaBranch, XaDecision
from integration.xa.decisions import decide, fresh_xid
from integration.xa.steps import XaStep, unobserved
from integration.xa.xid import Xid
from tests.functional.config_world import Config
from tests.support.builders import a_provider
from tests.support.celery_world import eventually
from tests.support.kafka_world import Kafka
from tests.support.set_up import logged_in
from tests.support.unanswered import wait_a_moment
from tests.support.xa import LOGS, a_factory, read

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers):
    yield Kafka(servers.kafka_bootstrap)
    connections.close_all()


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


def prepared(topic: str, xid: Xid, value: bytes) -> None:
    resource = connections.lookup("payments").xa()
    resource.start(xid)
    resource.send(xid, topic, value)
    resource.end(xid)
    resource.prepare(xid)


def test_a_branch_that_nobody_comes_back_for_is_decided_with_a_reason(broker, client):
    row, topic = a_factory(broker, "database"), broker.topic()
    first, second, ours = Xid.fresh(1), Xid.fresh(1), fresh_xid("default")
    for number, xid in enumerate((first, second, ours)):
        prepared(topic, xid, b"%d" % number)
    page, address = (
        reverse("connection", args=[row.pk]),
        reverse("connection-branch", args=[row.pk]),
    )
    assert str(first) not in client.get(page).text
    shown = unescape(client.get(page, {"branches": 1}).text)
    assert shown.count("PREPARED") == 3
    assert shown.count('value="rollback"') == 2

    def decided(xid: Xid, choice: str, reason: str = "it burnt down") -> int:
        sent = {"xid": str(xid), "choice": choice, "reason": reason}
        return client.post(address, sent).status_code

    assert decided(first, "commit", reason="") == 422
    assert decided(first, "break") == 422
    assert decided(ours, "commit") == 422
    assert read(broker, topic) == []
    assert not ConfigurationChange.objects.exists()
    assert decided(first, "commit") == 303
    assert decided(second, "rollback") == 303
    assert decided(second, "rollback") == 422
    assert read(broker, topic) == [0]
    told = ConfigurationChange.objects.order_by("id").values_list("actor", "reason", "after")
    assert told[0] == ("anna", "it burnt down", {"branch": f"{first}: commit"})
    shown = client.get(page, {"branches": 1}).text
    assert shown.count('value="forget"') == 3
    assert decided(first, "forget") == 303
    assert client.get(page, {"branches": 1}).text.count('value="forget"') == 2


def test_a_decided_branch_is_forgotten_only_if_it_cannot_be_delivered(broker, client, topics):
    """One is: its topic was deleted. One waits for a recovery, which the request does as well."""
    row, (gone, stays) = a_factory(broker, "database"), topics
    factory = connections.lookup("payments")
    xids = [left(factory, topic) for topic in (gone, stays)]
    broker.delete(gone)
    address = reverse("connection-branch", args=[row.pk])
    page = reverse("connection", args=[row.pk])
    assert client.get(page, {"branches": 1}).text.count('value="forget"') == 2

    def forget(xid: Xid, reason: str = "the topic is no more") -> Any:
        sent = {"xid": str(xid), "choice": "forget", "reason": reason}
        return client.post(address, sent, follow=True)

    assert "XA_OUT_OF_ORDER" in forget(xids[1]).text
    assert read(broker, stays) == [1]
    assert XaDecision.objects.count() == 1
    assert forget(xids[0], reason="").redirect_chain == []
    assert XaBranch.objects.count() == 1
    assert [status for _, status in forget(xids[0]).redirect_chain] == [303]
    assert not XaBranch.objects.exists()
    assert not XaDecision.objects.exists()
    assert connections.recover_all() == {}
    told = ConfigurationChange.objects.order_by("id").values_list("actor", "reason", "after").last()
    assert told == ("anna", "the topic is no more", {"branch": f"{xids[0]}: forget"})


@pytest.fixture
def topics(broker) -> tuple[str, str]:
    return broker.topic(), broker.topic()


def left(factory: connections.Factory, topic: str) -> Xid:
    """A branch that the database has committed, and nobody has delivered yet."""
    resource, xid = factory.xa(), fresh_xid("default")
    resource.start(xid)
    resource.send(xid, topic, b"1")
    resource.end(xid)
    with transaction.atomic():
        decide(xid, "payments", "default")
        resource.prepare(xid)
    resource.let_go(xid)
    return xid


def test_a_log_that_cannot_be_read_is_told_on_the_page(broker, client):
    row = a_factory(broker, xa_log_topic="gone")
    shown = client.get(reverse("connection", args=[row.pk]), {"branches": 1})
    assert "XA_TOPIC_MISSING" in shown.text


def test_a_log_in_a_topic_needs_two_topics_that_differ(broker, client):
    provider = a_provider(broker.bootstrap)
    sending = {"name": "pay", "provider": provider.pk, "goal": "balanced"}
    pool = {"least": 0, "most": 8, "idle_seconds": 60, "wait_seconds": 5}
    topics = {"xa": "topic", "xa_side_topic": "side", "xa_log_topic": ""}
    entered = sending | pool | topics | {"xa_expires_seconds": 60}
    address = reverse("connection-new")
    for wrong in ({}, {"xa_log_topic": "side"}, {"xa": "database", "xa_side_topic": ""}):
        assert client.post(address, entered | wrong).status_code == 422
    assert client.post(address, entered | {"xa_log_topic": "log"}).status_code == 303
    assert ConnectionFactory.objects.values_list("xa", "xa_log_topic").get() == ("topic", "log")


def entered(row: ConnectionFactory, **changed: object) -> dict[str, object]:
    """What the form of a connection sends."""
    fields = ("name", "goal", "xa", "xa_side_topic", "xa_log_topic", "xa_expires_seconds")
    pool = ("least", "most", "idle_seconds", "wait_seconds")
    values = {name: getattr(row, name) for name in fields + pool}
    seen = stamp(ConnectionFactory.objects.get(pk=row.pk))
    return values | {"provider": row.provider_id, "seen": seen} | changed


@pytest.mark.parametrize("log", LOGS)
def test_what_leads_to_branches_stays_while_there_are_any(broker, client, log):
    """Recovery would remove the decision, and roll back what the database has committed."""
    row, topic = a_factory(broker, log), broker.topic()
    left(connections.lookup("payments"), topic)
    address = reverse("connection-change", args=[row.pk])
    other = a_provider(broker.bootstrap, name="other")
    changes = (
        {"xa_log_topic": "another"},
        {"xa_side_topic": "another"},
        {"xa": "off"},
        {"name": "pay"},
        {"provider": other.pk},
    )
    for change in changes:
        answer = client.post(address, entered(row, **change))
        assert (answer.status_code, "1 branch is under way" in answer.text) == (422, True)
    assert client.post(address, entered(row, most=9)).status_code == 303
    assert connections.recover_all() == {"commit": 1}
    assert read(broker, topic) == [1]
    assert client.post(address, entered(row, name="pay", xa_side_topic="b")).status_code == 303


def test_a_file_leaves_no_branches_behind_either(broker, tmp_path):
    a_factory(broker)
    prepared(broker.topic(), xid := Xid.fresh(1), b"1")
    text = "format: 1\nconnections:\n- name: payments\n  xa_log_topic: another\n"
    code, said = Config(tmp_path)("apply", text=text)
    assert (code, "1 branch is under way" in said) == (1, True), said
    connections.lookup("payments").xa().rollback(xid)
    code, said = Config(tmp_path)("apply", text=text)
    assert code == 0, said
    assert ConnectionFactory.objects.get().xa_log_topic == "another"


def change_it() -> None:
    row = ConnectionFactory.objects.get()
    row.xa_log_topic = "another"
    configuration.save(row, Author("anna"))


def delete_it() -> None:
    configuration.delete(ConnectionFactory.objects.get(), Author("anna"))


class Person(threading.Thread):
    """Changes or deletes the connection, and locks it only when others are ready."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self.told = ""
        self.is_asked, self.may_lock = threading.Event(), threading.Event()
        self._act = act

    def run(self) -> None:
        with closing(connection), connection.execute_wrapper(self._meanwhile):
            try:
                self._act()
            except (ValidationError, InUseError) as problem:
                self.told = str(problem)

    def _meanwhile(self, execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if "FOR UPDATE" in sql and not self.is_asked.is_set():
            self.is_asked.set()
            self.may_lock.wait(60)
        return execute(sql, *more)


@pytest.mark.parametrize("act", [change_it, delete_it])
def test_a_decision_that_is_made_meanwhile_is_waited_for(broker, act):
    """Nothing was under way when it was looked for first."""
    a_factory(broker)
    factory, topic, person = connections.lookup("payments"), broker.topic(), Person(act)

    def look(step: XaStep) -> None:
        if step is XaStep.PREPARED:
            person.may_lock.set()
            eventually(somebody_waits)
        if step is XaStep.DECIDED:
            raise InterruptedError

    def send() -> None:
        with factory.atomic() as session:
            session.send(topic, {"n": 1})
            person.start()
            person.is_asked.wait(60)

    factory.xa().observe(look)
    with pytest.raises(InterruptedError):
        send()
    person.join()
    assert "1 decision is kept" in person.told
    factory.xa().observe(unobserved)
    assert connections.recover_all() == {"commit": 1}
    assert read(broker, topic) == [{"n": 1}]


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize("log", LOGS)
def test_a_connection_stays_while_there_are_branches(broker, client, tmp_path, log):
    """Nobody else would end them: recovery goes over the connections that there are."""
    row, topic = a_factory(broker, log), broker.topic()
    left(connections.lookup("payments"), topic)
    address, sent = reverse("connection-delete", args=[row.pk]), {"reason": "old", "name": row.name}
    text, pruned = "format: 1\nconnections: []\n", Config(tmp_path)
    answer = client.post(address, sent)
    assert (answer.status_code, "1 branch is under way" in answer.text) == (409, True)
    code, said = pruned("apply", "--prune", text=text)
    assert (code, "1 branch is under way" in said) == (1, True), said
    assert connections.recover_all() == {"commit": 1}
    with transaction.atomic():
        decide(fresh_xid("default"), "payments", "default")
    answer = client.post(address, sent)
    assert (answer.status_code, "1 decision is kept" in answer.text) == (409, True)
    connections.recover_all()
    code, said = pruned("apply", "--prune", text=text)
    assert (code, ConnectionFactory.objects.count()) == (0, 0), said


def test_a_log_that_cannot_be_read_cannot_be_left(broker, client):
    row, nowhere = a_factory(broker), a_provider("127.0.0.1:1", name="nowhere")
    address = reverse("connection-change", args=[row.pk])
    ConnectionFactory.objects.update(provider=nowhere)
    deletion = reverse("connection-delete", args=[row.pk])
    with pytest.MonkeyPatch.context() as patched:
        wait_a_moment(patched)
        answer = client.post(address, entered(row, xa_log_topic="another"))
        assert (answer.status_code, "BROKER_UNREACHABLE" in answer.text) == (422, True)
        answer = client.post(deletion, {"reason": "old", "name": row.name})
        assert (answer.status_code, "BROKER_UNREACHABLE" in answer.text) == (409, True)
    # One that was misspelt never had a branch.
    ConnectionFactory.objects.update(provider=row.provider, xa_log_topic="gone")
    assert client.post(address, entered(row)).status_code == 303


def test_a_decision_whose_branch_is_over_goes_unless_the_connection_changes(broker):
    a_factory(broker)
    prepared(broker.topic(), Xid.fresh(1), b"1")
    with transaction.atomic():
        decide(fresh_xid("default"), "payments", "default")

    def change() -> None:
        if looks:
            ConnectionFactory.objects.update(changed_at=Now())
        looks.append(1)

    looks: list[int] = []
    connections.recover_all(change)
    assert XaDecision.objects.count() == 1
    connections.recover_all()
    assert not XaDecision.objects.exists()
