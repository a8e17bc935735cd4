"""Tracked messages over HTTP: what the search finds, what a message's page tells, and to whom."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection, transaction
from django.template.defaultfilters import truncatechars
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.models import Limit
from console.templatetags.sluice import within
from integration.codec import encode_headers
from integration.models import (
    Delivery,
    Endpoint,
    ErrorAttempt,
    ErrorChange,
    ExternalSystem,
    MessageTrack,
    OutboxRow,
    Queue,
    Receipt,
)
from integration.policy.states import DeliveryState
from integration.selectors.tracking import search
from integration.selectors.tracking.rows import Cursor
from integration.selectors.tracking.search import TrackFilter
from tests.support.rows import TOPIC_UUID, a_held, a_person, a_queue_row
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def logged_in(role: str = "Editors") -> Client:
    client = Client()
    client.force_login(a_person(role))
    return client


def listed(client: Client, **query: str) -> str:
    answer = client.get(reverse("tracking"), query)
    assert answer.status_code == 200
    return str(answer.text)


def opened(client: Client, message_id: str) -> Any:
    return client.get(f"{reverse('tracked-message')}?{urlencode({'id': message_id})}")


def by(name: str, system: str = "", **fields: Any) -> Queue:
    owner = ExternalSystem.objects.create(name=system) if system else None
    return a_queue_row(name=name, system=owner, **fields)


def a_published(queue: Queue, message_id: str, state: str) -> OutboxRow:
    """What publish() leaves in the outbox in a handler that consumed order-7."""
    headers = encode_headers([("sluice-interface", b"MXPO"), ("sluice-cause", b"order-7")])
    return OutboxRow.objects.create(
        provider=queue.provider, topic=queue.topic, kind="MESSAGE", state=state,
        created_at=timezone.now(), message_id=message_id, headers=headers,
        published_at=timezone.now() if state == "PUBLISHED" else None,
    )  # fmt: skip


class TestSearch:
    def test_without_a_message_it_says_where_to_look(self) -> None:
        page = listed(logged_in())
        assert "No message was tried in this period" in page
        assert reverse("queues") in page

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("message_id", "m/1~x y"),
            ("external_id", "PO-1"),
            ("search_a", "SITE-7"),
            ("search_b", "A-4711"),
        ],
    )
    def test_each_id_finds_its_message_and_no_other(self, field: str, value: str) -> None:
        queue = by("orders")
        found = a_track_row(queue, **{field: value})
        other = a_track_row(queue)
        page = listed(logged_in(), id=value)
        assert f"offset {found.offset}" in page
        assert f"offset {other.offset}" not in page

    @pytest.mark.parametrize(
        "query",
        [
            {"key": "K 1"},
            {"queue": "orders"},
            {"system": "eam"},
            {"interface": "MXPO"},
            {"ended": "HOLD"},
            {"direction": "outbound"},
        ],
    )
    def test_each_filter_narrows(self, query: dict[str, str]) -> None:
        mine = by("orders", "eam", direction="outbound")
        a_track_row(mine, key="K 1", interface="MXPO", ended="HOLD", message_id="the-one")
        a_track_row(by("others", "crm"), message_id="another")
        page = listed(logged_in(), **query)
        assert "the-one" in page
        assert "another" not in page

    def test_the_last_day_is_looked_at_unless_more_is_asked_for(self) -> None:
        queue = by("orders")
        a_track_row(queue, message_id="old-one", ago=timedelta(hours=30))
        assert "old-one" not in listed(logged_in())
        assert "old-one" in listed(logged_in(), hours="168")
        until = f"{timezone.now() - timedelta(hours=29):%Y-%m-%dT%H:%M}"
        assert "old-one" in listed(logged_in(), hours="24", until=until)

    def test_a_search_asks_the_database_few_questions(
        self, django_assert_max_num_queries: Any
    ) -> None:
        a_track_row(by("orders", "eam"), message_id="m-1")
        client = logged_in()
        listed(client, id="m-1")
        with django_assert_max_num_queries(21):
            assert "m-1" in listed(client, id="m-1")

    def test_what_cannot_be_read_is_told_and_left_out(self) -> None:
        a_track_row(by("orders"), message_id="the-one")
        odd = {"until": "yesterday", "hours": "many", "at": "nowhere~x", "ended": "ODD"}
        page = logged_in().get(reverse("tracking"), odd)
        assert page.context["form"].errors.keys() == {"until", "ended"}
        assert "the-one" in page.text

    def test_pages_reach_every_row_once(self) -> None:
        queue, at = by("orders"), timezone.now() - timedelta(minutes=1)
        for number in range(7):
            a_track_row(queue, at=at - timedelta(seconds=number // 3), message_id=f"m{number}")
        now = timezone.now()
        wanted = TrackFilter(since=now - timedelta(hours=1), until=now)
        seen, cursor = [], None
        for _ in range(4):
            page = search.page(wanted, cursor, size=2)
            assert page.count == 7
            seen += [row.id for row in page.rows]
            cursor = page.next_after
        assert cursor is None
        assert len(seen) == len(set(seen)) == 7
        assert Cursor.read(str(Cursor(at, 3))) == Cursor(at, 3)


class TestMessage:
    def test_an_applied_one_tells_when_it_was_written_and_how_long_it_took(self) -> None:
        track = a_track_row(by("orders"), message_id="m 1/ä")
        page = opened(logged_in(), "m 1/ä").text
        assert "Written to Kafka" in page
        assert "Read by orders: it was applied" in page
        assert "0.5 s" in page
        assert f"offset {track.offset}" in page

    def test_one_that_failed_leads_to_its_failure_and_tells_each_thing_once(self) -> None:
        queue = by("orders")
        error = a_held(queue, message_id="m-1", state="RESOLVED", ended="APPLIED", offset=3)
        now = timezone.now()
        MessageTrack.objects.all().delete()
        ErrorAttempt.objects.all().delete()
        for number, ended in ((1, "HOLD"), (2, "APPLIED")):
            at = now - timedelta(minutes=10 - number)
            code = "" if ended == "APPLIED" else "BAD"
            ErrorAttempt.objects.create(error=error, number=number, at=at, ended=ended, code=code)
            a_track_row(queue, at=at, offset=3, message_id="m-1", ended=ended, kafka_ms=None)
        ErrorChange.objects.create(
            error=error, at=now - timedelta(minutes=8, seconds=30), actor="otto", action="release",
            from_state="HOLD", to_state="READY", reason="mended",
        )  # fmt: skip
        page = opened(logged_in(), "m-1").text
        assert reverse("failure", args=[error.pk]) in page
        assert "Released" in page
        assert "otto" in page
        assert "Try 2" in page
        assert "Read by orders" not in page, "the tries are told by the failure"

    def test_a_posted_one_tells_who_posted_it_and_which_row_carried_it(self) -> None:
        system = ExternalSystem.objects.create(name="eam")
        queue = a_queue_row(name="orders", system=system)
        row = OutboxRow.objects.create(
            provider=queue.provider, topic=queue.topic, kind="MESSAGE", state="PUBLISHED",
            created_at=timezone.now(), published_at=timezone.now(), message_id="p.2",
        )  # fmt: skip
        Receipt.objects.create(
            system=system, sender_id="their-id", message_id="p", interface="MXPO", count=2,
            content_hash=b"h", status=202, answer={}, queue=queue, first_row=row.pk - 1,
            last_row=row.pk, received_at=timezone.now(),
        )  # fmt: skip
        page = opened(logged_in(), "p.2").text
        assert "Posted by HTTP" in page
        assert "their-id" in page
        assert reverse("outbox-row", args=[row.pk]) in page
        assert '?id=p"' in listed(logged_in(), id="their-id"), "its sender knows no other id"
        assert "Nothing matches" in listed(logged_in(), id="p-their-id")

    def test_a_delivered_one_tells_each_call_and_its_length(self) -> None:
        system = ExternalSystem.objects.create(name="eam")
        queue = a_queue_row(name="orders-out", system=system, direction="outbound")
        endpoint = Endpoint.objects.create(name="their-api", system=system, endpoint_type="http")
        now = timezone.now()
        for number, state in ((1, DeliveryState.FAILED), (2, DeliveryState.DELIVERED)):
            Delivery.objects.create(
                queue=queue, endpoint=endpoint, topic_uuid=TOPIC_UUID, partition=0, offset=1,
                message_id="d-1", attempt=number, state=state, epoch=1, status=503,
                started_at=now, ended_at=now, took_ms=1_234,
            )  # fmt: skip
        page = opened(logged_in(), "d-1").text
        assert "Call 1 of their-api: the endpoint did not take it" in page
        assert "Call 2 of their-api: the endpoint took it" in page
        assert "It took 1,234 ms." in page

    @pytest.mark.parametrize(
        ("state", "says"),
        [
            ("PENDING", "waits in the outbox for the relay"),
            ("STAMPED", "nobody knows whether Kafka has it"),
            ("PUBLISHED", "It is in Kafka. No try of it is known yet"),
            ("DEAD", "Kafka refused it. A person decides"),
            ("CANCELLED", "a person gave it up"),
        ],
    )
    def test_a_published_one_begins_with_that_and_says_where_it_is(
        self, state: str, says: str
    ) -> None:
        row = a_published(by("orders-out", direction="outbound"), "w-1", state)
        page = opened(logged_in(), "w-1").text
        assert "Published for orders-out" in page
        assert "Committed together with what message order-7 did." in page
        assert "MXPO" in page
        assert says in page
        assert reverse("outbox-row", args=[row.pk]) in page
        assert '?id=order-7"' in page, "the cause is a click away"
        shown = listed(logged_in(), id="w-1")
        assert says in shown
        assert '?id=w-1"' in shown
        assert "Nothing matches" not in shown

    def test_one_that_is_being_sent_is_found_when_its_outgoing_row_is_gone(self) -> None:
        queue = by("orders-out", "eam", direction="outbound")
        endpoint = Endpoint.objects.create(
            name="their-api", system=queue.system, endpoint_type="http"
        )
        Delivery.objects.create(
            queue=queue, endpoint=endpoint, topic_uuid=TOPIC_UUID, partition=0, offset=1,
            message_id="d-1", interface="MXPO", state="SENDING", epoch=1, started_at=timezone.now(),
        )  # fmt: skip
        shown = listed(logged_in(), id="d-1")
        assert "It is being sent to its endpoint." in shown
        assert "MXPO" in shown

    def test_one_whose_try_is_listed_is_not_told_twice(self) -> None:
        queue = by("orders-out", direction="outbound")
        a_published(queue, "w-1", "PUBLISHED")
        a_track_row(queue, message_id="w-1", ended="DELIVERED", ago=timedelta(hours=30))
        assert "outside the listed period" in listed(logged_in(), id="w-1")
        assert 'id="known"' not in listed(logged_in(), id="w-1", hours="168")
        assert "is known yet" not in opened(logged_in(), "w-1").text

    def test_one_for_another_system_is_not_found(self) -> None:
        a_published(by("theirs", "theirs", direction="outbound"), "w-1", "PENDING")
        person, mine = a_person("Editors"), ExternalSystem.objects.create(name="mine")
        Limit.objects.create(person=person).systems.add(mine)
        client = Client()
        client.force_login(person)
        assert "Nothing matches" in listed(client, id="w-1")
        assert opened(client, "w-1").status_code == 404

    def test_neighbours_and_answers_are_a_click_away(self) -> None:
        queue = by("orders")
        minute = timedelta(minutes=1)
        for number in range(4):
            a_track_row(
                queue, ago=(9 - number) * minute, message_id=f"n{number}", key=f"k{number % 2}"
            )
        a_track_row(by("replies"), message_id="reply", caused_by="n2")
        page = opened(logged_in(), "n2").text
        assert '?id=n1">← Previous of the queue' in page
        assert '?id=n3">Next of the queue' in page
        assert '?id=n0">← Previous of the same key' in page
        assert '?id=reply"' in page
        assert '?id=n2"' in opened(logged_in(), "reply").text

    def test_its_page_asks_the_database_few_questions(
        self, django_assert_max_num_queries: Any
    ) -> None:
        """Each look at the search index costs milliseconds where a day has a million rows."""
        queue, client = by("orders"), logged_in()
        failed = a_held(queue, 1, message_id="n1", kafka_timestamp=timezone.now())
        for number in range(3):
            a_track_row(queue, offset=number, message_id=f"n{number}", key="k")
        opened(client, "n1")
        with django_assert_max_num_queries(40) as asked:
            page = opened(client, "n1").text
        assert reverse("failure", args=[failed.pk]) in page
        assert "Next of the same key" in page
        searched = [q["sql"] for q in asked if "FROM integration_messagetrack t WHERE" in q["sql"]]
        looks = [sql.count("messagetrack t WHERE") for sql in searched if "batch_rows" not in sql]
        assert sum(looks) == 5, "the message, and what names it by one of four columns"

    def test_a_kept_payload_is_for_those_with_the_right(self) -> None:
        a_track_row(by("orders"), message_id="m", payload=b'{"salary": "modest"}', key="secret-key")
        assert "modest" in opened(logged_in("Editors"), "m").text
        page = opened(logged_in("Viewers"), "m").text
        assert "modest" not in page
        assert "secret-key" not in page
        assert "secret-key" not in listed(logged_in("Viewers"))

    def test_who_may_not_see_payloads_cannot_ask_for_what_is_in_them(self) -> None:
        a_track_row(by("orders"), message_id="m-1", external_id="PO-1", key="k")
        viewer = logged_in("Viewers")
        assert "m-1" not in listed(viewer, id="PO-1")
        assert "m-1" in listed(viewer, id="m-1")
        assert "m-1" in listed(viewer, key="unknown"), "a field that is not theirs says nothing"

    @pytest.mark.parametrize("message_id", ["", "never-seen", "x" * 3_000])
    def test_what_nobody_knows_has_no_page(self, message_id: str) -> None:
        assert opened(logged_in(), message_id).status_code == 404


def test_what_is_out_of_scope_does_not_exist() -> None:
    theirs, mine = by("theirs", "theirs"), by("mine", "mine")
    a_track_row(theirs, message_id="of-theirs", key="k")
    a_track_row(mine, message_id="seen", key="k", caused_by="their-cause")
    person = a_person("Editors")
    Limit.objects.create(person=person).systems.add(mine.system)
    client = Client()
    client.force_login(person)
    page = listed(client)
    assert "seen" in page
    assert "of-theirs" not in page
    assert opened(client, "of-theirs").status_code == 404
    assert opened(client, "seen").status_code == 200
    assert listed(client, queue="theirs").count("of-theirs") == 0


@pytest.mark.parametrize("text", ["", "PO-1", "x" * 60, "x" * 61, "Zu\u0308rich", "é" * 61, "<b>"])
def test_ids_are_shortened_as_all_texts_are(text: str) -> None:
    assert within(text, 60) == truncatechars(text, 60)


def test_a_search_reads_the_index_of_its_days_and_no_day_as_a_whole() -> None:
    queue = by("busy")
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, '
            "message_id, interface, ended, key, external_id, at) SELECT %s, 0, n, n, 'm-' || n, "
            "'I-' || n, 'APPLIED', 'k-' || n, 'e-' || n, statement_timestamp() "
            "- n * interval '1 ms' FROM generate_series(1, 30000) n",
            [queue.pk],
        )
        cursor.execute("ANALYZE integration_messagetrack")
    now = timezone.now() + timedelta(minutes=1)
    looks = []
    for query in ({"id": "e-777"}, {"key": "k-777"}, {"interface": "I-777"}):
        wanted = TrackFilter(since=now - timedelta(hours=24), until=now, **query)
        with CaptureQueriesContext(connection) as asked:
            found = search.page(wanted)
        assert [row.message_id for row in found.rows] == ["m-777"], query
        its = [q["sql"] for q in asked if "FROM integration_messagetrack" in q["sql"]]
        assert its, query
        looks += its
    for look in looks:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
            cursor.execute(f"EXPLAIN {look}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            cursor.execute("SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = on")
        assert "Bitmap Index Scan" in plan
        assert "Seq Scan" not in plan
        assert f"_d{now + timedelta(days=3):%Y%m%d}" not in plan


def test_what_is_found_more_than_a_thousand_times_is_paged_by_time() -> None:
    queue = by("busy")
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, '
            "message_id, interface, ended, key, search_a, at) SELECT %s, 0, n, n, 'm-' || n, 'I', "
            "'APPLIED', 'k', 'WEST', statement_timestamp() - n * interval '1 ms' "
            "FROM generate_series(1, 1500) n",
            [queue.pk],
        )
    now = timezone.now() + timedelta(minutes=1)
    wanted = TrackFilter(since=now - timedelta(hours=24), until=now, key="k")
    first = search.page(wanted)
    assert first.is_capped
    assert [row.message_id for row in first.rows] == [f"m-{n}" for n in range(1, 51)]
    second = search.page(wanted, first.next_after)
    assert [row.message_id for row in second.rows] == [f"m-{n}" for n in range(51, 101)]
    a_published(queue, "WEST", "PUBLISHED")
    shown = listed(logged_in(), id="WEST")
    assert "1,000+" in shown
    assert 'id="known"' not in shown, "so many have it that it names none of them"
