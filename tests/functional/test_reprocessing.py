"""Scheduled reprocessing: which held failures it releases, how fast, and what it leaves alone."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crontasks.builtin import reprocessing
from crontasks.builtin.reprocessing import Reprocessing, ReprocessingParameters
from integration.models import ErrorChange, MessageError, QueuePartition
from tests.functional.test_cleanup import a_queue, an_error, context

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def test_reprocessing_releases_what_matches_in_arrival_order_and_nothing_else():
    queue, other = a_queue(), a_queue("other")
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=50)
    held = {"days": None, "state": "HOLD", "code": "SERVICE_DISABLED"}
    second = an_error(queue, **held, arrival_batch=2, arrival_index=1)
    first = an_error(queue, **held, arrival_batch=1, arrival_index=9)
    others = [
        an_error(queue, **(held | {"code": "SCHEMA"})),
        an_error(other, **held),
        an_error(queue, **held, last_failed_at=timezone.now()),
        an_error(queue, days=1),
    ]
    wanted = ReprocessingParameters(queue="assets", code="SERVICE_DISABLED", per_second=1_000.0)
    assert list(reprocessing.matching(wanted)) == [first, second]
    outcome = Reprocessing().run(wanted, context())
    assert outcome.counts == {"RELEASED": 2}
    states = dict(MessageError.objects.values_list("pk", "state"))
    assert (states[first.pk], states[second.pk]) == ("READY", "READY")
    assert {states[row.pk] for row in others} == {"HOLD", "RESOLVED"}
    change = ErrorChange.objects.filter(error=first).latest("at")
    assert (change.actor, change.reason) == ("nightly", "scheduled reprocessing")


def test_reprocessing_keeps_its_pace_and_its_limit():
    queue = a_queue()
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=50)
    for _ in range(6):
        an_error(queue, days=None, state="HOLD")
    began = timezone.now()
    outcome = Reprocessing().run(ReprocessingParameters(at_most=4, per_second=20.0), context())
    assert outcome.counts == {"RELEASED": 4}
    assert timezone.now() - began >= timedelta(seconds=3 / 20)


def test_what_its_queue_has_passed_takes_no_place_of_what_may_be_released():
    queue = a_queue(kind="sequential")
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=50)
    passed = [
        an_error(queue, days=None, state="HOLD", offset=n, arrival_batch=1, arrival_index=n)
        for n in range(2)
    ]
    head = an_error(queue, days=None, state="HOLD", offset=50, arrival_batch=2, arrival_index=0)
    given = {"at_most": 2, "per_second": 1_000.0}
    outcome = Reprocessing().run(ReprocessingParameters(**given), context())
    assert outcome.counts == {"RELEASED": 1, "LATE_RELEASE": 2}
    head.refresh_from_db()
    assert head.state == "READY"

    outcome = Reprocessing().run(ReprocessingParameters(**given, late=True), context())
    assert outcome.counts == {"RELEASED": 2}
    states = MessageError.objects.filter(pk__in=[row.pk for row in passed]).values("state")
    assert {row["state"] for row in states} == {"READY"}
