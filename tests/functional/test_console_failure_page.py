"""The page of one failure: its story, its neighbours, newer data, and what may be copied."""

import base64
import re
from datetime import timedelta
from html import unescape

import pytest
from django.db.models.expressions import RawSQL
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.models import (
    EnterpriseService,
    ErrorAttempt,
    ErrorChange,
    ExternalSystem,
    MessageError,
    ObjectStructure,
    StoredObject,
)
from integration.selectors.failures.lateness import newer_data
from integration.selectors.failures.timeline import timeline
from integration.selectors.masking.covers import UNCOVERED
from integration.selectors.scope import EVERYTHING
from integration.version import sluice_version
from tests.support.rows import a_blocked_queue, a_held, a_person, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def page_of(client: Client, error: MessageError, **query: str) -> str:
    return unescape(client.get(reverse("failure", args=[error.pk]), query).text)


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


class TestStory:
    def test_engine_and_people_in_the_order_of_time_with_what_lay_between(self) -> None:
        now = timezone.now()
        error = a_held(
            a_queue_row(),
            kafka_timestamp=now - timedelta(hours=5),
            sender="EAM",
            copied_at=now - timedelta(hours=3),
        )
        error.tries.all().delete()
        for number, hours in ((1, 4), (2, 1)):
            ErrorAttempt.objects.create(
                error=error,
                number=number,
                at=now - timedelta(hours=hours),
                ended="HOLD",
                code="BAD_VALUE",
                text="No.",
                worker="w:1",
            )
        ErrorChange.objects.create(
            error=error,
            at=now - timedelta(hours=2),
            actor="otto",
            action="release",
            from_state="HOLD",
            to_state="READY",
            reason="fixed there",
        )
        events = timeline(error, error.tries.all(), error.changes.all(), UNCOVERED, EVERYTHING)
        assert [event.title.split(":")[0] for event in events] == [
            "Written to Kafka",
            "Try 1",
            "Copied to the error queue",
            "Released",
            "Try 2",
        ]
        assert [event.who for event in events][0::3] == ["EAM", "otto"]
        assert events[0].waited is None
        assert events[3].waited == timedelta(hours=1)

    def test_it_ends_with_how_the_message_ended(self, client: Client) -> None:
        now = timezone.now()
        error = a_held(a_queue_row(), state="RESOLVED", ended="SUPERSEDED", closed_at=now)
        page = page_of(client, error)
        assert "Ended: superseded" in page
        assert 'class="verbs' not in page, "there is nothing to do"

    def test_the_try_comes_before_what_the_same_commit_made_of_it(self) -> None:
        now = timezone.now()
        error = a_held(a_queue_row(), state="RESOLVED", ended="APPLIED", closed_at=now)
        error.tries.all().delete()
        later = now + timedelta(milliseconds=40)
        ErrorAttempt.objects.create(error=error, number=2, at=later, ended="APPLIED")
        titles = [
            event.title for event in timeline(error, error.tries.all(), [], UNCOVERED, EVERYTHING)
        ]
        assert [title.split(":")[0] for title in titles[-2:]] == ["Try 2", "Ended"]

    def test_what_a_partner_answered_is_called_so(self, client: Client) -> None:
        out = a_queue_row(name="out", direction="outbound", topic="out.topic")
        for queue, said in ((out, "The partner's answer"), (a_queue_row(), "handler&#x27;s")):
            error = a_held(queue)
            error.tries.update(detail="Orders above 1200 need a signature.")
            page = page_of(client, error)
            assert said in page.replace("handler's", "handler&#x27;s")
            assert ("It arrived" in page.partition(">Edit</a>")[2]) == (queue is out), "but later"

    def test_details_of_a_try_need_the_right_to_see_payloads(self, client: Client) -> None:
        error = a_held(a_queue_row())
        error.tries.update(detail="Traceback: value 'secret'")
        assert "Traceback" in page_of(client, error)
        other = Client()
        other.force_login(a_person("Operators"))
        assert "Traceback" not in page_of(other, error)


class TestWords:
    def test_the_header_names_the_sender_of_what_could_not_be_read(self, client: Client) -> None:
        error = a_held(
            a_queue_row(),
            attempts=0,
            kafka_timestamp=timezone.now(),
            headers=[["sluice-sender", base64.b64encode(b"erp").decode()]],
        )
        error.tries.update(number=0)
        page = words(page_of(client, error))
        assert "Sender erp according to its header" in page
        assert "Written to Kafka by erp (according to its header)" in page
        assert "Could not be tried: it was put on hold" in page, "no try has the number nought"
        assert "Try 0" not in page

    def test_what_is_resolved_is_told_as_over(self, client: Client) -> None:
        error = a_held(a_queue_row(), state="RESOLVED", ended="APPLIED")
        page = page_of(client, error)
        assert "failed every time, as it was then" in page
        assert "fails every time" not in page

    def test_a_service_that_is_off_is_opened_itself(self, client: Client) -> None:
        service = EnterpriseService.objects.create(interface="MXOFF", enabled=False)
        error = a_held(a_queue_row(), code="SERVICE_DISABLED", interface="MXOFF")
        boss = Client()
        boss.force_login(a_person("Administrators"))
        page = page_of(boss, error)
        assert f'href="{reverse("service", args=[service.pk])}"' in page
        assert "no handler for it is installed" in page, "switched on, it would stop others"
        service.structure = ObjectStructure.objects.create(name="places", key_paths=["$.id"])
        service.save()
        assert "no handler for it is installed" not in page_of(boss, error)

    @pytest.mark.parametrize(
        ("on", "taker", "said"),
        [
            (False, True, "Switch the enterprise service MXOFF on under Set up"),
            (False, False, "Leave the enterprise service MXOFF off for now"),
            (True, True, "MXOFF is switched on again: release it"),
            (True, False, "Install the app with the handler for MXOFF on every worker"),
        ],
    )
    def test_whether_it_is_off_or_not_installed_is_told_as_it_is_now(
        self, client: Client, on: bool, taker: bool, said: str
    ) -> None:
        structure = ObjectStructure.objects.create(name="places", key_paths=["$.id"])
        EnterpriseService.objects.create(
            interface="MXOFF", enabled=on, structure=structure if taker else None
        )
        error = a_held(
            a_queue_row("continuous"),
            code="SERVICE_DISABLED",
            failure_class="disabled",
            interface="MXOFF",
            text="Something of it was off.",
        )
        assert said in words(page_of(client, error))

    def test_a_system_that_is_on_again_asks_for_the_release_alone(self, client: Client) -> None:
        queue = a_queue_row("continuous", system=ExternalSystem.objects.create(name="acme"))
        page = words(page_of(client, a_held(queue, code="SYSTEM_DISABLED")))
        assert "acme is switched on again: release it" in page


class TestPlaces:
    @pytest.mark.parametrize("kind", ["sequential", "continuous"])
    def test_nothing_stands_behind_a_failure_that_others_pass(
        self, client: Client, kind: str
    ) -> None:
        queue = a_queue_row(kind)
        error, other = a_held(queue, 10), a_held(queue, 11, key=b"P-2", interface="MXOTHER")
        page = page_of(client, error)
        is_behind = kind == "sequential"
        assert ("Open failures behind it" in page) == is_behind
        assert (reverse("failure", args=[other.pk]) in page) == is_behind

    def test_raw_and_laid_out_are_two_addresses(self, client: Client) -> None:
        error = a_held(a_queue_row(), payload=an_envelope({"a": 1}))
        assert '"a": 1' in page_of(client, error)
        raw = page_of(client, error, view="raw")
        assert '"compressed": "1"' in raw
        assert '"a": 1' not in raw

    def test_newer_and_older_within_the_filter_of_the_list(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        now = timezone.now()
        rows = [a_held(queue, n, last_failed_at=now - timedelta(minutes=n)) for n in range(4)]
        MessageError.objects.filter(pk=rows[2].pk).update(code="OTHER")
        listed = client.get(reverse("failure-list"), {"code": "BAD_VALUE"}).text
        link = re.search(rf'href="({reverse("failure", args=[rows[1].pk])}[^"]*)"', listed)
        assert link is not None
        page = unescape(client.get(unescape(link[1])).text)
        newer = re.search(r'rel="prev" href="([^"]+)"', page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        assert newer is not None
        assert older is not None
        assert str(rows[0].pk) in newer[1]
        assert str(rows[3].pk) in older[1], "what the filter leaves out is passed"
        assert "code=BAD_VALUE" in older[1]
        assert f"{reverse('failure-list')}?code=BAD_VALUE" in page
        assert 'rel="prev"' not in page_of(client, rows[1]), "there is no place outside a list"

    def test_a_decision_leads_back_to_the_place_in_the_list(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"))
        query = {"from": "list", "code": "BAD_VALUE"}
        page = page_of(client, error, **query)
        back = re.search(r'name="next" value="([^"]+)"', page)
        assert back is not None
        form = {"version": 1, "next": back[1]}
        answer = client.post(reverse("release", args=[error.pk]), form)
        assert answer["Location"] == back[1]
        assert "code=BAD_VALUE" in back[1]

    def test_open_failures_of_the_same_key_are_named(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        error = a_held(queue, 10)
        assert "with the same key" not in page_of(client, error)
        other = a_held(queue, 5)
        a_held(queue, 6, key=b"other")
        a_held(queue, 7, state="DELETED")
        page = page_of(client, error)
        assert "with the same key" in page
        assert "at 5, before this one" in page
        assert page.count(reverse("failure", args=[other.pk])) == 1
        assert "at 6" not in page

    def test_where_the_document_has_the_key_that_is_the_one(self, client: Client) -> None:
        queue = a_queue_row("continuous", ordering="key", order_path="$.num")
        error = a_held(queue, 10, order_key=b"A")
        other = a_held(queue, 5, order_key=b"A", key=b"another record's")
        unlike = a_held(queue, 6, order_key=b"B")
        page = page_of(client, error)
        assert reverse("failure", args=[other.pk]) in page
        assert reverse("failure", args=[unlike.pk]) not in page
        assert page.count("$.num") == 2, "which key is meant, beside the record's"
        assert "$.num" in client.get(reverse("queue", args=[queue.name])).text
        keyless = page_of(client, a_held(queue, 11))
        assert reverse("failure", args=[error.pk]) not in keyless, "the record's is not meant"
        assert "waits for no other" in words(keyless)

    def test_what_is_missing_leads_to_its_own_failures(self, client: Client) -> None:
        waiting = {"waits_kind": "asset", "waits_key": "A 1", "waits_for": b"hash"}
        later = timezone.now() + timedelta(hours=1)
        error = a_held(a_queue_row("continuous"), state="RETRY", not_before=later, **waiting)
        page = page_of(client, error)
        assert "as soon as what is missing arrives" in words(page)
        assert "Missing asset A 1" in words(page)
        assert f"{reverse('failure-list')}?state=&key=A%201" in page

    def test_the_message_that_stops_a_sequential_queue_can_be_parked(self, client: Client) -> None:
        queue, _, error = a_blocked_queue()
        of_key = {"order_key": b"A", "arrival_batch": 1}
        a_held(queue, 30, state="PARKED", arrival_index=1, parked_at=timezone.now(), **of_key)
        MessageError.objects.filter(pk=error.pk).update(arrival_index=0, **of_key)
        page = page_of(client, error)
        assert "One message of its key is parked behind it." in words(page)
        assert reverse("park", args=[error.pk]) in page
        form = {"version": 1, "reason": "the others may go on"}
        client.post(reverse("park", args=[error.pk]), form)
        error.refresh_from_db()
        assert (error.state, error.parked_at is None) == ("HOLD", False)
        assert reverse("park", args=[error.pk]) not in page_of(client, error)


class TestNewer:
    def test_a_later_message_of_the_key_that_succeeded_is_a_warning(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        error = a_held(queue, 10, arrival_batch=5, arrival_index=10)
        a_held(queue, 9, arrival_batch=5, arrival_index=9, state="RESOLVED", ended="APPLIED")
        assert newer_data(error) is None, "an earlier one is no newer data"
        later = a_held(queue, 12, arrival_batch=6, arrival_index=0, state="RESOLVED")
        assert newer_data(error) is None, "it must have been applied"
        MessageError.objects.filter(pk=later.pk).update(ended="APPLIED")
        page = page_of(client, error)
        assert reverse("failure", args=[later.pk]) in page
        assert "Treat it as the newest of its key" in page

    def test_where_the_document_has_the_key_that_has_to_be_the_same_too(self) -> None:
        queue = a_queue_row("continuous", ordering="key", order_path="$.num")
        applied = {"state": "RESOLVED", "ended": "APPLIED"}
        error = a_held(queue, 10, order_key=b"A", arrival_batch=5, arrival_index=10)
        keyless = a_held(queue, 11, arrival_batch=5, arrival_index=11)
        a_held(queue, 12, order_key=b"B", arrival_batch=6, arrival_index=0, **applied)
        assert newer_data(error) is None, "the record's key alone is the same"
        assert newer_data(keyless) is None
        later = a_held(queue, 13, order_key=b"A", arrival_batch=7, arrival_index=0, **applied)
        newer = newer_data(error)
        assert newer is not None
        assert newer.failure == later.pk

    @pytest.mark.parametrize(("batch", "is_newer"), [(4, False), (6, True)])
    def test_a_stored_document_that_is_newer_is_a_warning(
        self, client: Client, batch: int, *, is_newer: bool
    ) -> None:
        structure = ObjectStructure.objects.create(name="asset", key_paths=["$.assetnum"])
        EnterpriseService.objects.create(interface="MXASSETInterface", structure=structure)
        StoredObject.objects.create(
            structure=structure,
            key="P-1",
            document={},
            arrival_batch=batch,
            arrival_index=0,
            updated_at=timezone.now(),
        )
        error = a_held(a_queue_row(), key=None, arrival_batch=5, arrival_index=10)
        assert ("asset holds newer data of this key" in page_of(client, error)) is is_newer

    def test_a_stored_number_of_thousands_of_digits_is_in_nobodys_way(self, client: Client) -> None:
        self.test_a_stored_document_that_is_newer_is_a_warning(client, 6, is_newer=True)
        documents = StoredObject.objects.all()
        documents.update(document=RawSQL("""'{"w": 1e4300}'::jsonb""", ()))
        page = page_of(client, MessageError.objects.get())
        assert "asset holds newer data of this key" in page
        assert "(a deletion)" not in page
        documents.update(document=None)
        assert "(a deletion)" in page_of(client, MessageError.objects.get())

    @pytest.mark.parametrize(("version", "is_newer"), [(3, True), (1, False)])
    def test_versions_decide_where_there_are_some(self, version: int, *, is_newer: bool) -> None:
        structure = ObjectStructure.objects.create(
            name="asset", key_paths=["$.assetnum"], version_path="$.rev"
        )
        EnterpriseService.objects.create(interface="MXASSETInterface", structure=structure)
        StoredObject.objects.create(
            structure=structure,
            key="P-1",
            document={},
            sort_version=version,
            arrival_batch=5,
            arrival_index=99,
            updated_at=timezone.now(),
        )
        payload = an_envelope({"assetnum": "P-1", "rev": 2})
        error = a_held(a_queue_row(), payload=payload, arrival_batch=5, arrival_index=10)
        assert (newer_data(error) is not None) is is_newer

    def test_it_can_be_released_as_the_newest_with_a_reason(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        error = a_held(queue, 10, arrival_batch=5, arrival_index=10)
        address = reverse("release", args=[error.pk])
        without = client.post(address, {"version": 1, "apply_as_newest": "1"})
        assert without.status_code == 409
        form = {"version": 1, "apply_as_newest": "1", "reason": "the plant says so"}
        assert client.post(address, form).status_code == 303
        error.refresh_from_db()
        assert (error.state, error.apply_as_newest) == ("READY", True)


def test_the_copy_for_support_holds_nothing_of_the_content(client: Client) -> None:
    queue, _, error = a_blocked_queue()
    MessageError.objects.update(
        key=b"KEY-VALUE",
        text="Asset 'AZ163' is unknown.",
        headers=[["secret-header", "aHVzaA=="]],
        edited_payload=b'{"edited": "content"}',
    )
    page = page_of(client, error)
    found = re.search(r'<textarea[^>]*"Facts for support"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    text = found[1]
    for secret in ("KEY-VALUE", "AZ163", "secret-header", "hush", "content", "assetnum", "P-1"):
        assert secret not in text, secret
    for fact in (str(error.pk), "BAD_VALUE", queue.name, "offset 10", "Asset … is unknown."):
        assert fact in text, fact
    assert f"Sluice {sluice_version()}, Python " in text
