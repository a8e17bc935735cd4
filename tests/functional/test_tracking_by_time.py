"""Tracking by time: what the list of batches finds is what is there, in order, each row once."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from integration.models import MessageTrack, Queue
from integration.selectors.tracking import rows
from integration.selectors.tracking.batches import Span
from integration.selectors.tracking.rows import of_messages
from integration.selectors.tracking.search import TrackFilter, TrackPage, page
from tests.support import emptying
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
BATCHES: Final = 700
HOURS: Final = timedelta(hours=1)


@pytest.fixture(scope="module")
def committed(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[list[Queue]]:
    """Three queues with what was tracked for them: read by most tests, so written once."""
    with django_db_blocker.unblock():
        found = [a_queue_row() for _ in range(3)]
        write(found)
    yield found
    with django_db_blocker.unblock():
        emptying.empty()


@pytest.fixture
def queues(committed: list[Queue], db: None) -> list[Queue]:
    return committed


@pytest.fixture
def written(queues: list[Queue]) -> list[MessageTrack]:
    # In order: a table that was emptied by hand before gives its rows as they found room.
    return list(MessageTrack.objects.order_by("at", "id"))


def write(queues: list[Queue]) -> None:
    """Batches of one to five rows, some of the same moment, some with one arrival number."""
    rng = random.Random(4)
    begin = timezone.now() - HOURS
    made: list[MessageTrack] = []
    for number in range(BATCHES):
        # Every tenth begins in the microsecond of the one before.
        at = begin + timedelta(milliseconds=number - (number % 10 == 0))
        made += a_batch(rng.choice(queues), at, number // 2, rng.randint(1, 5))
    MessageTrack.objects.bulk_create(made)


def a_batch(queue: Queue, at: datetime, arrival: int, count: int) -> Iterator[MessageTrack]:
    for place in range(count):
        yield MessageTrack(
            queue=queue,
            partition=0,
            offset=place,
            arrival_batch=arrival,
            message_id=f"{arrival}-{place}",
            interface="X",
            ended="DELIVERED" if arrival == 1 else "APPLIED",
            at=at,
            key="",
            batch_rows=None if place else count,
        )


def in_order(written: list[MessageTrack]) -> list[int]:
    return [row.id for row in sorted(written, key=lambda row: (row.at, row.id), reverse=True)]


def walked(wanted: TrackFilter, size: int) -> list[int]:
    found: list[int] = []
    shown: TrackPage = page(wanted, None, size)
    while True:
        found += [row.id for row in shown.rows]
        if shown.next_after is None:
            return found
        shown = page(wanted, shown.next_after, size)


def everything(**fields: str) -> TrackFilter:
    now = timezone.now()
    return TrackFilter(since=now - 2 * HOURS, until=now, **fields)


def test_page_after_page_shows_every_row_once_in_order(written: list[MessageTrack]) -> None:
    assert walked(everything(), 97) == in_order(written)


def test_so_does_one_queue_of_them(written: list[MessageTrack], queues: list[Queue]) -> None:
    mine = [row for row in written if row.queue_id == queues[1].pk]
    assert walked(everything(queue=queues[1].name), 50) == in_order(mine)


@pytest.fixture
def silent() -> list[Queue]:
    return [a_queue_row() for _ in range(3)]


@pytest.fixture
def bursts(silent: list[Queue]) -> list[MessageTrack]:
    """Three times in ten hours a hundred batches within a tenth of a second; all else is silence.

    Only the first of all was delivered.
    """
    begin = timezone.now() - 11 * HOURS
    made: list[MessageTrack] = []
    for number in range(300):
        at = begin + 5 * HOURS * (number // 100) + timedelta(milliseconds=number % 100)
        made += a_batch(silent[number % 3], at, number + 1, 1)
    MessageTrack.objects.bulk_create(made)
    return list(MessageTrack.objects.filter(queue__in=silent).order_by("at", "id"))


def test_silence_ends_no_list_and_is_crossed_in_a_few_steps(
    bursts: list[MessageTrack], silent: list[Queue]
) -> None:
    span = Span([queue.pk for queue in silent], timezone.now() - 12 * HOURS, timezone.now())
    names = {queue.pk: (queue.name, "inbound") for queue in silent}
    with CaptureQueriesContext(connection) as asked:
        found = rows.in_order(span, "t.ended = 'DELIVERED'", {}, names, limit=50)
    assert [row.id for row in found] == [bursts[0].id]
    assert len([q for q in asked if "listed" in q["sql"]]) <= 12
    for newest_first in (True, False):
        both_ways = Span(span.queues, span.begin, span.end, newest_first)
        every = rows.in_order(both_ways, rows.ALL, {}, names, limit=1_000)
        assert [row.id for row in every] == in_order(bursts)[:: 1 if newest_first else -1]


@pytest.mark.parametrize("size", [1, 10])
def test_what_is_rare_is_found_behind_all_the_rest(written: list[MessageTrack], size: int) -> None:
    """It is further back than the list of batches is read."""
    rare = [row for row in written if row.ended == "DELIVERED"]
    assert rare
    assert walked(everything(ended="DELIVERED"), size) == in_order(rare)
    assert page(everything(ended="DELIVERED")).count == len(rare)


def test_the_oldest_come_first_where_the_span_goes_that_way(
    written: list[MessageTrack], queues: list[Queue]
) -> None:
    mine = [row for row in written if row.queue_id == queues[0].pk]
    span = Span([queues[0].pk], written[0].at - HOURS, timezone.now(), newest_first=False)
    names = {queues[0].pk: ("q", "inbound")}
    found = rows.in_order(span, rows.ALL, {}, names, limit=len(written))
    assert [row.id for row in found] == in_order(mine)[::-1]


def test_a_span_ends_before_its_end(written: list[MessageTrack], queues: list[Queue]) -> None:
    cut = written[len(written) // 2].at
    span = Span([queue.pk for queue in queues], cut, written[-1].at)
    inside = [row for row in written if cut <= row.at < written[-1].at]
    assert rows.count(span, rows.ALL, {}, cap=10_000) == len(inside)
    assert rows.count(span, "t.ended = 'APPLIED'", {}, cap=10_000) == len(inside)


def test_above_the_cap_a_count_is_above_it(written: list[MessageTrack]) -> None:
    assert len(written) > 1_000
    shown = page(everything())
    assert shown.is_capped
    assert shown.shown_count == 1_000


@pytest.mark.parametrize("count", [rows.FEW_IDS, rows.FEW_IDS + 1])
def test_many_ids_are_found_as_few_are(written: list[MessageTrack], count: int) -> None:
    queue = written[0].queue_id
    mine = sorted({row.message_id for row in written if row.queue_id == queue})[:count]
    wanted = [row for row in written if row.queue_id == queue and row.message_id in mine]
    found = of_messages(mine, queue, written[0].at)
    assert [row.id for row in found] == in_order(wanted)[::-1]


def test_an_id_that_many_share_is_looked_for_by_the_index_once(
    written: list[MessageTrack],
) -> None:
    """What has it as its own id stands among those that share it, in the order of time."""
    own = written[len(written) // 2]
    MessageTrack.objects.exclude(pk=own.pk).update(search_a="WEST")
    MessageTrack.objects.filter(pk=own.pk).update(message_id="WEST")
    shown = page(everything(id="WEST"))
    assert (shown.is_capped, len(shown.rows)) == (True, 50)
    assert walked(everything(id="WEST"), 500) == in_order(written)
    with CaptureQueriesContext(connection) as asked:
        page(everything(id="WEST"))
    assert sum("counted.number" in one["sql"] for one in asked) == 1
