"""Deciding about failures over HTTP: release and delete, one of them or many at once."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.models import MessageError, Queue, QueuePartition
from tests.support.rows import a_blocked_queue, a_held, a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def failed_at_once(queue: Queue, count: int) -> list[MessageError]:
    """Failures of one and the same moment: only their ids tell them apart."""
    at = timezone.now()
    return [a_held(queue, offset, last_failed_at=at) for offset in range(count)]


class TestDecisions:
    def test_release_answers_303_and_a_double_click_is_harmless(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        address = reverse("release", args=[error.pk])
        first = client.post(address, {"version": 1})
        assert (first.status_code, first["Location"]) == (
            303,
            reverse("failure", args=[error.pk]),
        )
        second = client.post(address, {"version": 1}, follow=True)
        assert second.redirect_chain[0][1] == 303
        assert "You already did this" in second.content.decode()
        assert error.changes.count() == 1

    def test_the_loser_of_a_race_sees_the_page_as_it_is_now(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        other = Client()
        other.force_login(a_person("Operators", "otto"))
        other.post(reverse("delete", args=[error.pk]), {"version": 1, "reason": "obsolete"})
        answer = client.post(reverse("release", args=[error.pk]), {"version": 1})
        assert answer.status_code == 409
        assert "It has moved on: otto changed it" in answer.text
        assert "Restore" in answer.text

    def test_a_late_release_asks_first(self, client: Client) -> None:
        _, place, error = a_blocked_queue()
        QueuePartition.objects.filter(pk=place.pk).update(next_offset=12)
        address = reverse("release", args=[error.pk])
        asked = client.post(address, {"version": 1})
        assert asked.status_code == 409
        assert "Apply it late" in asked.text
        assert client.post(address, {"version": 1, "late": "1"}).status_code == 303
        error.refresh_from_db()
        assert (error.state, error.late) == ("READY", True)

    @pytest.mark.parametrize("version", ["", "x", "-1", "9" * 40, "\u0661"])
    @pytest.mark.parametrize("verb", ["release", "edit"])
    def test_a_spoilt_version_is_told_as_such_and_changes_nothing(
        self, client: Client, verb: str, version: str
    ) -> None:
        _, _, error = a_blocked_queue()
        form = {"version": version, "part": "document", "text": "{}"}
        answer = client.post(reverse(verb, args=[error.pk]), form)
        assert answer.status_code == 400
        assert "its field “version” is missing or is no number" in answer.text
        assert "Nothing was changed" in answer.text
        assert "moved on" not in answer.text
        error.refresh_from_db()
        assert (error.state, error.version) == ("HOLD", 1)

    def test_a_deletion_without_a_reason_is_asked_for_one(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        answer = client.post(reverse("delete", args=[error.pk]), {"version": 1, "reason": ""})
        assert answer.status_code == 409
        assert "a reason is needed" in answer.text


class TestBulk:
    def test_ticked_rows_are_reviewed_then_released(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        rows = failed_at_once(queue, 3)
        MessageError.objects.filter(pk=rows[2].pk).update(state="RESOLVED")
        ticked = [f"{row.pk}:1" for row in rows]
        review = client.post(reverse("review"), {"verb": "release", "chosen": ticked})
        assert review.status_code == 200
        assert "Release 2 messages?" in review.text
        assert "Left alone" in review.text
        assert MessageError.objects.filter(state="READY").count() == 0, "nothing is done yet"
        chosen = " ".join(ticked)
        done = client.post(
            reverse("carry-out", args=["release"]),
            {"chosen": chosen, "reason": "up again", "query": "state=HOLD"},
            follow=True,
        )
        assert done.redirect_chain == [("/failures/?state=HOLD", 303)]
        assert "2 released; 1 had moved on" in done.content.decode()
        assert MessageError.objects.filter(state="READY").count() == 2

    def test_all_that_match_the_filter_are_frozen_at_the_review(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        failed_at_once(queue, 60)
        a_held(queue, 500, code="OTHER")
        form = {"verb": "release", "scope": "matching", "query": "code=BAD_VALUE"}
        review = client.post(reverse("review"), form)
        assert "Release 60 messages?" in review.text
        found = re.search(r'name="chosen" value="([^"]+)"', review.text)
        assert found is not None
        a_held(queue, 501)
        client.post(reverse("carry-out", args=["release"]), {"chosen": found[1]})
        assert MessageError.objects.filter(state="READY").count() == 60

    def test_a_deletion_without_a_reason_shows_the_review_again(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"))
        answer = client.post(
            reverse("carry-out", args=["delete"]), {"chosen": f"{error.pk}:1", "reason": " "}
        )
        assert answer.status_code == 422
        assert f"{error.pk}:1" in answer.text
        error.refresh_from_db()
        assert error.state == "HOLD"

    def test_nothing_ticked_is_said(self, client: Client) -> None:
        answer = client.post(reverse("review"), {"verb": "hold"}, follow=True)
        assert "Nothing was selected" in answer.content.decode()

    def test_no_choice_and_unknown_verbs_are_nothing(self, client: Client) -> None:
        answer = client.post(reverse("carry-out", args=["release"]), {"chosen": " "}, follow=True)
        assert "0 released" in answer.content.decode()
        assert client.post(reverse("carry-out", args=["explode"])).status_code == 404
