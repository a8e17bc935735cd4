"""Deciding about failures over HTTP: release and delete, one of them or many at once."""

import pytest
from django.test import Client
from django.urls import reverse

from integration.models import QueuePartition
from tests.support.rows import a_blocked_queue, a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


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
        assert [one.level_tag for one in second.context["messages"]] == ["success", "info"]
        assert error.changes.count() == 1

    def test_the_loser_of_a_race_sees_the_page_as_it_is_now(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        other = Client()
        other.force_login(a_person("Operators", "otto"))
        other.post(reverse("delete", args=[error.pk]), {"version": 1, "reason": "obsolete"})
        answer = client.post(reverse("release", args=[error.pk]), {"version": 1})
        assert answer.status_code == 409
        assert "otto changed it" in answer.text
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
        assert "“version”" in answer.text
        assert "Nothing was changed" in answer.text
        assert "moved on" not in answer.text
        error.refresh_from_db()
        assert (error.state, error.version) == ("HOLD", 1)

    def test_a_deletion_without_a_reason_is_asked_for_one(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        answer = client.post(reverse("delete", args=[error.pk]), {"version": 1, "reason": ""})
        assert answer.status_code == 409
        assert "a reason is needed" in answer.text
