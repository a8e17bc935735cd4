"""People are told once when something begins and once when it is over."""

import logging
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core import mail
from django.db.models import F
from django.utils import timezone

from crontasks.models import CronInstance, Heartbeat, Notice, NoticeDelivery
from crontasks.models.notice import NoticeKind
from crontasks.models.notice_kinds import FACTS
from crontasks.notices import book, conditions
from integration.delivery.relay.left_out import LeftOut
from integration.models import (
    Deployment,
    Gap,
    MessageError,
    OutboxRow,
    PartitionLease,
    Provider,
    Queue,
    QueuePartition,
    RelayLease,
)
from integration.policy.relay_shares import bucket, share
from integration.selectors.outbox.relaying import relays
from integration.store import locks
from integration.store.locks import LockClass
from integration.store.sessions import database_now, raw_connection
from tests.support.servers import celery_at

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def recipients(settings, valkey):
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]
    # The schedules of the installation are as old as the tests' run, and so maybe late.
    CronInstance.objects.update(last_scheduled_at=None)
    Heartbeat.objects.create(
        kind="beat", node="b", pid=1, started_at=database_now(), seen_at=database_now()
    )


@pytest.fixture
def row() -> QueuePartition:
    provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
    queue = Queue.objects.create(
        name="assets", provider=provider, topic="t", kind="continuous", start_from="beginning"
    )
    return QueuePartition.objects.create(
        queue=queue, partition=0, topic_uuid="u", next_offset=10, progressed_at=database_now()
    )


def look(*, is_settled: bool = True) -> set[str]:
    found = conditions.seen_by_workers(is_settled=is_settled)
    book.settle(found, conditions.kinds_of_workers(is_settled=is_settled))
    return {str(condition.kind) for condition in found}


def test_a_block_is_mailed_once_and_its_end_once(row, caplog):
    caplog.set_level(logging.INFO)
    QueuePartition.objects.update(state="BLOCKED", state_code="HEAD_HELD", state_text="Bad date.")
    assert look() == {"BLOCKED"}
    look()
    QueuePartition.objects.update(state="RUNNING")
    assert look() == set()
    look()
    assert [message.subject for message in mail.outbox] == [
        "[sluice] Queue blocked: assets[0]",
        "[sluice] Over: Queue blocked: assets[0]",
    ]
    assert "HEAD_HELD: Bad date." in mail.outbox[0].body
    told = [record.getMessage() for record in caplog.records if "notice" in record.getMessage()]
    assert told == ["notice", "notice over"]
    notice = Notice.objects.get()
    assert notice.closed_at is not None

    QueuePartition.objects.update(state="BLOCKED")
    look()
    assert len(mail.outbox) == 3, "a new block is a new notice"


def test_a_mail_that_could_not_be_sent_is_sent_later(row, settings):
    QueuePartition.objects.update(state="BRAKED")
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    look()
    assert Notice.objects.get().told_at is None
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    look()
    assert mail.outbox == [], "the next try comes after a pause"
    [waiting] = NoticeDelivery.objects.all()
    assert (waiting.tries, "Connection refused" in waiting.problem) == (1, True)
    NoticeDelivery.objects.update(next_at=database_now())
    look()
    assert len(mail.outbox) == 1
    assert Notice.objects.get().told_at is not None


def test_what_was_over_before_it_could_be_told_is_not_told(row, settings):
    QueuePartition.objects.update(state="BRAKED")
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    look()
    QueuePartition.objects.update(state="RUNNING")
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    look()
    assert mail.outbox == []


def test_without_recipients_the_log_tells(row, settings, caplog):
    settings.SLUICE_NOTIFY_EMAILS = []
    QueuePartition.objects.update(state="BRAKED")
    look()
    assert mail.outbox == []
    (record,) = [r for r in caplog.records if r.getMessage() == "notice"]
    assert (record.kind, record.subject) == ("BRAKED", "assets[0]")


def test_a_short_outage_is_nobodys_mail(row):
    QueuePartition.objects.update(state="OUTAGE", state_since=database_now() - 10 * SECOND)
    assert look() == set()
    QueuePartition.objects.update(state_since=database_now() - 60 * SECOND)
    assert look() == {"OUTAGE"}
    Queue.objects.update(paused=True)
    assert look() == set()


def test_many_holds_in_a_short_time_are_a_burst(row):
    now = timezone.now()
    for offset in range(FACTS[NoticeKind.HOLD_BURST].count or 0):
        MessageError.objects.create(
            queue=row.queue,
            topic_uuid="u",
            partition=0,
            offset=offset,
            state="HOLD",
            failure_class="permanent",
            code="X",
            first_failed_at=now,
            last_failed_at=now,
        )
    assert look() == {"HOLD_BURST"}
    MessageError.objects.filter(offset=0).update(last_failed_at=now - 11 * 60 * SECOND)
    assert look() == set()


def test_a_gap_is_told_until_somebody_confirms_it(row):
    gap = Gap.objects.create(
        id=uuid4(),
        partition=row,
        topic_uuid="u",
        from_offset=3,
        to_offset=1_003,
        reason="expired",
        found_at=timezone.now(),
    )
    assert look() == {"GAP"}
    assert "1,000 offsets" in mail.outbox[0].body
    gap.acknowledged_at = timezone.now()
    gap.save()
    assert look() == set()


def test_messages_that_nobody_reads_after_a_tick_are_told_with_the_command_that_helps(row):
    QueuePartition.objects.update(high_watermark=99, progressed_at=database_now() - 600 * SECOND)
    PartitionLease.objects.create(
        partition=row,
        owner="o",
        epoch=1,
        lock_pid=1,
        lock_backend_start=timezone.now(),
        lease_until=timezone.now(),
        taken_at=timezone.now() - 600 * SECOND,
        released_at=timezone.now() - 500 * SECOND,
    )
    ticked = CronInstance.objects.filter(queue=row.queue)
    ticked.update(last_scheduled_at=timezone.now() - 490 * SECOND)
    assert look() == set(), "its schedule has not come around"
    ticked.update(last_scheduled_at=database_now())
    assert look() == {"NO_CONSUMER"}
    assert "check_flow assets" in mail.outbox[0].body
    assert look(is_settled=False) == set()
    assert len(mail.outbox) == 1, "it still holds, though a new leader does not look for it yet"
    QueuePartition.objects.update(next_offset=F("high_watermark"))
    assert look() == set()


def test_outgoing_messages_without_a_relay_are_told(row):
    OutboxRow.objects.create(
        provider=row.queue.provider,
        topic="t",
        kind="MESSAGE",
        created_at=timezone.now() - 90 * SECOND,
    )
    assert look() == {"NO_RELAY"}
    provider, session = row.queue.provider, raw_connection("a relay")
    try:
        assert locks.take(session, [LockClass.RELAY, locks.relay_key(provider.pk, 0)])
        assert look() == set(), "it is late, and at work"
        RelayLease.objects.create(provider=provider, trouble="BROKER_RIGHTS: It may not.")
        (found,) = conditions.seen_by_workers(is_settled=True)
        assert (found.kind, found.text.endswith("It may not.")) == (NoticeKind.NO_RELAY, True)
        assert "1 outgoing message is due" in found.text
    finally:
        session.close()
    OutboxRow.objects.update(not_before=timezone.now() + 60 * SECOND)
    assert look() == set()


LEFT_OUT = LeftOut({"ill": "no broker leads its partition 0"}).text


@pytest.mark.parametrize(
    ("trouble", "told"),
    [(LEFT_OUT, LEFT_OUT), ("BROKER_RIGHTS: It may not.", "It may not."), (None, "no relay")],
    ids=["of both", "waits for Kafka", "nobody relays"],
)
def test_topics_that_one_shard_leaves_out_hide_no_trouble_of_another(row, trouble, told):
    provider = row.queue.provider
    Provider.objects.update(shards=2)
    for shard, text in enumerate((LEFT_OUT, trouble or "")):
        held = share(shard, 2)
        RelayLease.objects.create(
            provider=provider,
            shard=shard,
            trouble=text,
            first_bucket=held.first,
            end_bucket=held.end,
        )
        topic = next(t for n in range(99) if bucket(t := f"t-{n}") in held)
        due = timezone.now() - 90 * SECOND
        OutboxRow.objects.create(provider=provider, topic=topic, kind="MESSAGE", created_at=due)
    with raw_connection("relays") as session:
        for shard in range(1 if trouble is None else 2):
            assert locks.take(session, [LockClass.RELAY, locks.relay_key(provider.pk, shard)])
        (found,) = conditions.seen_by_workers(is_settled=True)
        assert "2 outgoing messages are due" in found.text
        assert told in found.text
    assert [one.trouble for one in relays()] == [trouble or LEFT_OUT]


def test_a_dead_beat_is_told_by_the_workers_and_dead_workers_by_beat(row):
    Heartbeat.objects.update(seen_at=database_now() - 30 * SECOND)
    assert look() == {"NO_BEAT"}
    ours = conditions.kinds_of_beat(workers_alive=False)
    book.settle(conditions.seen_by_beat(workers_alive=False), ours)
    kinds = set(Notice.objects.filter(closed_at=None).values_list("kind", flat=True))
    assert kinds == {"NO_BEAT", "NO_WORKER"}
    ours = conditions.kinds_of_beat(workers_alive=True)
    book.settle(conditions.seen_by_beat(workers_alive=True), ours)
    assert set(Notice.objects.filter(closed_at=None).values_list("kind", flat=True)) == {"NO_BEAT"}


def test_a_broker_that_is_away_is_told_by_workers_or_where_there_are_none_by_beat(row, monkeypatch):
    monkeypatch.setattr("crontasks.health.broker.AGAIN_SECONDS", 0.05)
    with celery_at("redis://127.0.0.1:1/0"):
        assert look() == {"NO_BROKER"}
        assert "SLUICE_CELERY_BROKER_URL" in mail.outbox[0].body
        by_beat = {one.kind for one in conditions.seen_by_beat(workers_alive=False)}
    assert by_beat == {NoticeKind.NO_WORKER, NoticeKind.NO_BROKER}
    assert NoticeKind.NO_BROKER not in conditions.kinds_of_beat(workers_alive=True)
    assert look() == set()
    assert len(mail.outbox) == 2


def waiting(row: QueuePartition, *, left: timedelta) -> None:
    """Its first untried message expires so soon; the topic keeps messages for a week."""
    kept = timedelta(seconds=row.queue.retention_seconds)
    oldest = database_now() - kept + left
    QueuePartition.objects.update(high_watermark=30, oldest_waiting_at=oldest)


def test_messages_about_to_expire_are_told_once_while_there_is_time(row):
    QueuePartition.objects.update(state="BLOCKED", state_code="HEAD_HELD")
    waiting(row, left=timedelta(hours=7))
    assert "EXPIRING" not in look()
    waiting(row, left=timedelta(hours=5, minutes=30))
    assert "EXPIRING" in look()
    told = [sent.body for sent in mail.outbox if "expire unread" in sent.subject]
    assert len(told) == 1
    for word in (
        "assets: ",
        "20 messages wait",
        "in 5 h",
        "7 d",
        "check_flow assets",
        "retention.ms",
    ):
        assert word in told[0]
    # The same standstill, later, and a little progress: nothing new to tell.
    for left in (timedelta(hours=2), timedelta(hours=6, minutes=30), timedelta(minutes=-1)):
        waiting(row, left=left)
        assert "EXPIRING" in look()
    assert "at any moment" in Notice.objects.get(kind="EXPIRING").text
    waiting(row, left=timedelta(hours=20))
    assert "EXPIRING" not in look()
    told = [sent.subject for sent in mail.outbox if "expire unread" in sent.subject]
    assert len(told) == 2
    assert "Over: " in told[1]


def test_nothing_expires_on_a_queue_without_waiting_messages_or_that_is_off(row):
    waiting(row, left=timedelta(hours=1))
    QueuePartition.objects.update(next_offset=30)
    assert "EXPIRING" not in look()
    QueuePartition.objects.update(next_offset=10)
    Queue.objects.update(enabled=False)
    assert "EXPIRING" not in look()


def test_nothing_expires_on_a_queue_that_lost_its_endpoint(row):
    """Its positions stay, and the lag monitor no longer looks at them."""
    Queue.objects.update(direction="outbound")
    waiting(row, left=timedelta(hours=1))
    assert "EXPIRING" not in look()


def test_a_copy_says_only_that_it_is_one(row):
    QueuePartition.objects.update(state="BLOCKED")
    Deployment.objects.update(environment="production")
    assert look() == {"COPY"}
    assert "adopt_database" in mail.outbox[0].body


def test_a_copy_leaves_the_notices_of_its_original_alone(row):
    QueuePartition.objects.update(state="BLOCKED")
    assert look() == {"BLOCKED"}
    row.pk, row.partition, row.state = None, 1, "BLOCKED"
    row.save()
    book.settle(conditions.seen_by_workers(is_settled=True), conditions.WORKER_KINDS, lambda: None)
    Deployment.objects.update(environment="production")
    assert look() == {"COPY"}
    book.settle(conditions.seen_by_beat(workers_alive=False), {NoticeKind.NO_WORKER})
    assert len(mail.outbox) == 2
    assert "adopt_database" in mail.outbox[1].body
    assert Notice.objects.filter(kind="BLOCKED", closed_at__isnull=True).count() == 2
    assert NoticeDelivery.objects.filter(sent_at__isnull=True).count() == 1


def test_an_end_that_another_watch_has_told_stays_told(row):
    QueuePartition.objects.update(state="BLOCKED")
    look()
    QueuePartition.objects.update(state="RUNNING")
    notice = Notice.objects.get()
    book.settle([], conditions.WORKER_KINDS, lambda: None)
    end = NoticeDelivery.objects.get(event=NoticeDelivery.Event.OVER)
    book._close([notice.pk])
    assert NoticeDelivery.objects.filter(pk=end.pk).exists()


def test_every_kind_has_a_title_and_somebody_who_looks_for_it():
    assert all(kind.label != kind.value for kind in NoticeKind)
    looked_for = conditions.WORKER_KINDS | conditions.kinds_of_beat(workers_alive=True)
    assert looked_for == set(NoticeKind)


def test_an_outbound_queue_that_waits_for_a_person_is_told(row):
    provider = row.queue.provider
    refused = {"provider": provider, "kind": "MESSAGE", "created_at": database_now()}
    OutboxRow.objects.create(topic="t", state="DEAD", dead_code="TOO_LARGE", **refused)
    assert look() == set(), "a queue without an order goes on"
    OutboxRow.objects.update(strict_queue=row.queue.pk)
    assert look() == {"BLOCKED"}
    assert "TOO_LARGE: " in mail.outbox[0].body
    OutboxRow.objects.update(state="CANCELLED")
    assert look() == set()
    RelayLease.objects.create(provider=provider, in_doubt_since=database_now(), in_doubt_text="?")
    assert look() == {"BLOCKED"}
    assert mail.outbox[-1].subject.endswith(": relay of main")
