"""The first page over HTTP: blocked queues as sentences with their verbs, figures, limits."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from console.models import Limit
from console.overview import first_page
from crontasks.models import Notice
from crontasks.models.notice import NoticeKind
from integration.actions import queues as actions
from integration.actions.configuration import Author, save
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    MessageError,
    Provider,
    Queue,
    QueueSample,
)
from integration.selectors.queues.status import NO_BEAT, NO_WORKER, OR_OFF
from tests.support.rows import (
    a_blocked_queue,
    a_held,
    a_message_to_send,
    a_person,
    a_place,
    a_queue_row,
    some_live_processes,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
OVERVIEW = "/"


def as_(role: str, person: User | None = None) -> Client:
    client = Client()
    client.force_login(person or a_person(role))
    return client


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def a_long_blocked_queue(**fields: object) -> MessageError:
    """Blocked for seven hours by AZ163, with 4,212 behind it."""
    _, place, error = a_blocked_queue(**fields)
    now = timezone.now()
    MessageError.objects.filter(pk=error.pk).update(key=b"AZ163", text="siteid missing.")
    place.high_watermark = 4_223
    place.state_since = now - timedelta(hours=7, minutes=5)
    place.seen_at, place.oldest_waiting_at = now - timedelta(minutes=5), now - timedelta(days=5)
    place.save()
    error.refresh_from_db()
    return error


class TestBlockedQueue:
    def test_it_is_one_sentence_with_what_waits_and_expires(self) -> None:
        some_live_processes()
        error = a_long_blocked_queue()
        day = error.queue.partitions.get().oldest_waiting_at + timedelta(days=7)
        assert (
            "Blocked 7 h by AZ163: siteid missing. At most 4,212 wait behind it, counted 5 min "
            f"ago; the first expires {day:%A} {day:%H:%M}."
        ) in words(as_("Editors").get(OVERVIEW).text)

    def test_who_may_see_no_keys_sees_the_offset(self) -> None:
        a_long_blocked_queue()
        page = words(as_("Operators").get(OVERVIEW).text)
        assert "offset 10" in page
        assert "AZ163" not in page

    def test_other_failures_of_its_key_are_a_link_for_who_may_see_keys(self) -> None:
        error = a_long_blocked_queue()
        a_held(error.queue, 11, key=b"AZ163", message_id="second")
        a_held(error.queue, 12, key=b"other", message_id="third")
        editor = as_("Editors")
        (link,) = re.findall(r'href="([^"]*key=AZ163)"', editor.get(OVERVIEW).text)
        found = editor.get(unescape(link)).text
        assert "second" in found
        assert "third" not in found

    def test_it_leads_to_the_edit_or_to_the_failure(self) -> None:
        error = a_long_blocked_queue()
        assert reverse("edit", args=[error.pk]) in as_("Editors").get(OVERVIEW).text
        page = as_("Operators").get(OVERVIEW).text
        assert reverse("failure", args=[error.pk]) in page
        assert reverse("edit", args=[error.pk]) not in page

    def test_it_is_deleted_from_here_with_a_reason_and_then_waits_for_a_worker(self) -> None:
        error = a_long_blocked_queue()
        client = as_("Operators")
        address = reverse("delete", args=[error.pk])
        assert address in client.get(OVERVIEW).text
        form = {"version": error.version, "reason": "sent twice", "next": OVERVIEW}
        answer = client.post(address, form)
        assert (answer.status_code, answer["Location"]) == (303, OVERVIEW)
        error.refresh_from_db()
        assert error.state == "DELETED"
        assert error.changes.get().reason == "sent twice"
        page = client.get(OVERVIEW).text
        assert address not in page

    def test_a_viewer_is_told_which_right_is_missing(self) -> None:
        a_long_blocked_queue()
        page = as_("Viewers").get(OVERVIEW).text
        assert re.search(r"<button class=\"btn btn-danger\" disabled aria-describedby", page)
        assert Right.OPERATE.missing in page

    def test_who_was_told_and_when(self, settings: object) -> None:
        error = a_long_blocked_queue(name="orders")
        client = as_("Viewers")
        assert "Nobody yet" in client.get(OVERVIEW).text
        settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]  # type: ignore[attr-defined]
        begun = timezone.now() - timedelta(hours=7)
        notice = Notice.objects.create(
            kind=NoticeKind.BLOCKED, subject="orders[0]", text=error.text, opened_at=begun
        )
        assert "could not be sent yet" in client.get(OVERVIEW).text
        notice.told_at = begun
        notice.save()
        assert "A message was sent 7 h ago to ops@example.org." in words(client.get(OVERVIEW).text)
        settings.SLUICE_NOTIFY_EMAILS = []  # type: ignore[attr-defined]
        assert "Only the log" in client.get(OVERVIEW).text

    def test_the_queues_own_page_says_the_same(self) -> None:
        error = a_long_blocked_queue()
        page = as_("Editors").get(reverse("queue", args=[error.queue.name])).text
        assert 'data-code="HEAD_HELD"' in page
        for fact in ("AZ163", "siteid missing", "4,212"):
            assert fact in page

    def test_a_block_without_a_message_tells_what_was_found(self) -> None:
        queue = a_queue_row(name="gone", topic="t-gone")
        a_place(queue, state="BLOCKED", state_code="TOPIC_GONE", next_offset=15)
        page = as_("Viewers").get(OVERVIEW).text
        assert 'data-code="TOPIC_GONE"' in page
        assert "t-gone" in page
        assert "Decide" in page

    def test_more_than_the_page_holds_are_counted(self) -> None:
        for _ in range(first_page.CARDS_SHOWN + 2):
            a_blocked_queue()
        page = as_("Viewers").get(OVERVIEW).text
        assert page.count('class="sentence"') == first_page.CARDS_SHOWN
        assert "2 more blocked queues" in page


class TestEmptyInstallation:
    def test_the_next_step_is_the_button(self) -> None:
        client = as_("Administrators")
        assert reverse("provider-new") in client.get(OVERVIEW).text
        Provider.objects.create(name="plant", bootstrap_servers="127.0.0.1:1")
        page = client.get(OVERVIEW).text
        assert reverse("provider-new") not in page.split("Or <a")[0].split("live")[1]
        assert f'href="{reverse("system-new")}">Add a system' in page
        ExternalSystem.objects.create(name="maximo")
        EnterpriseService.objects.create(interface="MXWO")
        assert f'href="{reverse("queue-new")}">Add a queue' in client.get(OVERVIEW).text

    def test_who_may_not_set_up_is_told_whom_to_ask(self) -> None:
        page = as_("Viewers").get(OVERVIEW).text
        assert Right.CONFIGURE.missing in page
        assert f'href="{reverse("provider-new")}"' not in page


class TestLimited:
    @pytest.fixture
    def limited(self) -> Client:
        mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("sap", "maximo"))
        for system in (mine, theirs):
            a_blocked_queue(name=f"{system.name}-orders", system=system)
            queue = a_queue_row("continuous", name=f"{system.name}-out", direction="outbound")
            Queue.objects.filter(pk=queue.pk).update(system=system)
            a_message_to_send(queue, "DEAD")
        a_blocked_queue(name="of-nobody")
        person = a_person("Operators", "eva")
        Limit.objects.create(person=person).systems.add(mine)
        return as_("", person)

    def test_what_is_hidden_is_nowhere_and_that_something_is_hidden_is_told(
        self, limited: Client
    ) -> None:
        for address in (OVERVIEW, reverse("queues"), reverse("overview-causes")):
            page = limited.get(address).text
            assert "maximo" not in page
            assert "of-nobody" not in page
        assert "others are hidden from you" in limited.get(OVERVIEW).text
        assert "some are hidden from you" in limited.get(reverse("queues")).text
        assert "sap-orders" in limited.get(OVERVIEW).text

    def test_figures_count_what_may_be_known(self, limited: Client) -> None:
        page = words(limited.get(OVERVIEW).text)
        assert "On hold 1 wait for a person" in page
        assert "Refused by Kafka 1" in page
        assert "Waiting 5" in page

    def test_what_is_hidden_does_not_exist(self, limited: Client) -> None:
        name = "maximo-orders"
        for view in ("queue", "flow"):
            assert limited.get(reverse(view, args=[name])).status_code == 404
        for verb in ("pause", "resume", "enable", "disable", "adopt-start", "adopt-end", "stay"):
            assert limited.post(reverse(verb, args=[name])).status_code == 404
        assert not Queue.objects.filter(paused=True).exists()
        assert limited.post(reverse("pause", args=["sap-orders"])).status_code == 303


SHOWN_BY_QUERY = {
    "": ["orders", "outgoing", "readings", "spare"],
    "system=maximo": ["orders"],
    "state=NEED": ["orders"],
    "state=RUNNING": ["outgoing", "readings", "spare"],
    "kind=sequential": ["orders"],
    "kind=error": ["spare"],
    "kind=outbound": ["outgoing"],
    "text=METERS": ["readings"],
    "order=waiting": ["readings", "orders", "spare", "outgoing"],
    "order=name": ["orders", "outgoing", "readings", "spare"],
    "text=nothing": [],
}


class TestList:
    @pytest.fixture
    def client(self) -> Client:
        system = ExternalSystem.objects.create(name="maximo")
        some_live_processes()
        a_blocked_queue(name="orders", system=system)
        a_place(a_queue_row("continuous", name="readings", topic="meters"), high_watermark=500)
        a_place(a_queue_row("continuous", name="spare", is_error_queue=True), high_watermark=12)
        a_queue_row("continuous", name="outgoing", direction="outbound")
        return as_("Viewers")

    def names(self, client: Client, query: str) -> list[str]:
        page = client.get(f"{reverse('queues')}?{query}").text
        return re.findall(r'class="fw-bold name" href="/queues/([a-z]+)/"', page)

    def test_filters_and_orders(self, client: Client) -> None:
        for query, names in SHOWN_BY_QUERY.items():
            assert self.names(client, query) == names, query

    def test_what_cannot_be_read_is_told_and_left_out(self, client: Client) -> None:
        assert len(self.names(client, "state=ODD")) == 4
        page = client.get(f"{reverse('queues')}?state=ODD")
        assert list(page.context["form"].errors) == ["state"]

    def test_a_filter_that_matches_nothing_offers_to_be_cleared(self, client: Client) -> None:
        assert "Clear filters" in client.get(f"{reverse('queues')}?text=nothing").text

    def test_the_busiest_first_goes_by_the_samples(self, client: Client) -> None:
        now = timezone.now()
        for name, pace in (("spare", 9), ("readings", 3)):
            queue = Queue.objects.get(name=name)
            for ago in (30, 15, 0):
                at = now - timedelta(seconds=ago)
                count = pace * (60 - ago)
                QueueSample.objects.create(queue=queue, at=at, position=count, end=count)
        assert self.names(client, "order=traffic")[:2] == ["spare", "readings"]
        page = client.get(reverse("queues")).text
        assert "9.0 / 9.0" in page
        assert 'aria-label="Waiting over the last 15 minutes: from 0 to 0, at most 0."' in page


class TestQueuePage:
    def test_its_history_merges_what_was_decided_and_what_was_changed(self) -> None:
        queue = a_queue_row(name="orders")
        a_place(queue)
        actions.pause(queue.pk, actor="otto", reason="stocktaking")
        queue.refresh_from_db()
        queue.max_retries = 7
        save(queue, Author("anna", "the partner is slow"))
        page = words(as_("Viewers").get(reverse("queue", args=["orders"])).text)
        assert "Retries: 3 → 7 “the partner is slow”" in page
        assert "The current batch was the last one. “stocktaking”" in page
        assert page.index("the partner is slow") < page.index("“stocktaking”")

    def test_each_switch_is_named_with_its_state(self) -> None:
        queue = a_queue_row(
            name="orders", system=ExternalSystem.objects.create(name="sap", enabled=False)
        )
        a_place(queue)
        Notice.objects.create(
            kind=NoticeKind.OUTAGE,
            subject="provider plant",
            text="BROKER_REFUSED: Wrong password.",
            opened_at=timezone.now(),
        )
        page = words(as_("Viewers").get(reverse("queue", args=["orders"])).text)
        assert "External system switched on: no sap" in page
        assert "Cron instance active: yes Consume orders, every 10 seconds." in page
        assert f"Beat: no {NO_BEAT.why}" in page
        assert f"Worker: no {NO_WORKER.why}" in page
        assert "Provider reachable: no Wrong password." in page

    def test_the_hour_is_drawn_with_words_and_as_a_table(self) -> None:
        queue = a_queue_row("continuous", name="orders")
        a_place(queue, high_watermark=400)
        now = timezone.now()
        for step in range(40):
            at = now - timedelta(seconds=15 * (40 - step))
            QueueSample.objects.create(
                queue=queue, at=at, position=step * 30, end=1_600 + step * 15
            )
        page = as_("Viewers").get(reverse("queue", args=["orders"])).text
        assert 'role="img" aria-label="Received over the last hour: 1.0 a second' in page
        assert "style=" not in page
        text = words(page)
        assert "1.0 / 2.0 in the last minute, 1.0 / 2.0 in 15 minutes" in text
        assert "empty in 6 min" in text
        assert "The figures as a table" in text


def test_every_box_that_is_opened_is_closed() -> None:
    blocked, _, _ = a_blocked_queue(name="orders")
    gone = a_queue_row(name="gone")
    a_place(gone, state="BLOCKED", state_code="TOPIC_GONE")
    outbound = a_queue_row(name="outgoing", direction="outbound")
    client = as_("Operators")
    named = [reverse("queue", args=[queue.name]) for queue in (blocked, gone, outbound)]
    for address in (OVERVIEW, reverse("queues"), *named):
        page = client.get(address).text
        assert page.count("<div") == page.count("</div>"), address


def test_where_all_flows_the_page_says_so() -> None:
    some_live_processes()
    queue = a_queue_row("continuous")
    a_place(queue, next_offset=15)
    client = as_("Viewers")
    assert "Nothing is wrong: every queue is running." in client.get(OVERVIEW).text
    a_held(queue, 1)
    text = words(client.get(OVERVIEW).text)
    assert "1 failure on hold waits for a person: repair by cause . Every queue is running." in text
    assert "Nothing is wrong" not in text


def test_what_people_stopped_is_told_with_reason_moment_and_way_back() -> None:
    some_live_processes()
    queue = a_queue_row("continuous", name="orders")
    long_ago = timezone.now() - timedelta(minutes=16)
    a_place(queue, next_offset=11, high_watermark=15, state_since=long_ago)
    actions.pause(queue.pk, actor="otto", reason="stocktaking")
    client = as_("Operators")
    page = client.get(OVERVIEW).text
    assert "every queue is running" not in page.lower()
    told = words(page.split('id="stopped"')[1].split("</section>")[0])
    assert "orders is paused. “stocktaking” By otto," in told
    assert "4 messages wait" in told
    assert "16 min ago" not in told
    assert f'action="{reverse("resume", args=["orders"])}"' in page
    assert "16 min ago" not in client.get(reverse("queue", args=["orders"])).text
    actions.disable(queue.pk, actor="otto")
    assert "orders is switched off." in words(client.get(OVERVIEW).text)


def test_a_queue_that_waits_for_a_handler_leads_to_the_service_that_lacks_it() -> None:
    some_live_processes()
    service = EnterpriseService.objects.create(interface="MXNONE")
    said = "No handler for MXNONE is installed on worker w:1."
    queue = a_queue_row("continuous")
    a_place(queue, state="WAITING", state_code="HANDLER_MISSING", state_text=said)
    client = as_("Operators")
    for address in (OVERVIEW, reverse("queue", args=[queue.name])):
        page = client.get(address).text
        assert f'href="{reverse("service", args=[service.pk])}"' in page
        assert OR_OFF in page


def test_very_many_failures_are_grouped_by_a_part_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    for offset in range(3):
        a_held(queue, offset)
    client = as_("Viewers")
    assert "BAD_VALUE" in client.get(OVERVIEW).text
    monkeypatch.setattr(first_page, "COUNT_CAP", 2)
    page = client.get(OVERVIEW).text
    assert "BAD_VALUE" not in page
    assert f'hx-get="{reverse("overview-causes")}"' in page
    assert "BAD_VALUE" in client.get(reverse("overview-causes")).text


def test_the_shards_of_a_relay_are_shown_where_there_are_several() -> None:
    queue = a_queue_row(direction="outbound")
    client = as_("Administrators")
    assert "Nobody serves it" not in client.get(OVERVIEW).text
    Provider.objects.filter(pk=queue.provider_id).update(shards=2)
    a_message_to_send(queue)
    assert client.get(OVERVIEW).text.count("Nobody serves it") == 2
