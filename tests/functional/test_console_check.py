"""Editing over HTTP: what is wrong and where, what differs, what a check shows, who was faster."""

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from integration.models import (
    EnterpriseService,
    MessageError,
    ObjectStructure,
    OutboxRow,
    Queue,
    StoredObject,
)
from integration.selectors.failures.diffs import difference
from integration.selectors.failures.faults import Path, places_of
from tests.support.rows import a_blocked_queue, a_held, a_person, a_queue_row, an_envelope
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


@pytest.fixture
def structure() -> ObjectStructure:
    structure = ObjectStructure.objects.create(
        name="asset",
        key_paths=["$.assetnum"],
        json_schema={
            "required": ["siteid"],
            "properties": {"priority": {"type": "integer"}, "assetnum": {"type": "string"}},
        },
    )
    EnterpriseService.objects.create(interface="MXASSETInterface", structure=structure)
    return structure


def posted(
    client: Client, name: str, error: MessageError, text: str, **more: str
) -> tuple[int, str]:
    form = {"version": "1", "part": "document", "text": text, **more}
    answer = client.post(reverse(name, args=[error.pk]), form)
    return answer.status_code, unescape(answer.text)


class TestFaults:
    def test_syntax_is_told_with_line_and_column(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        status, page = posted(client, "edit", error, '{\n  "a": 1\n  "b": 2\n}')
        assert status == 422
        assert "Line 3, column 3:" in page
        error.refresh_from_db()
        assert error.edited_payload is None

    def test_every_breach_of_the_schema_is_told_where_it_stands(
        self, client: Client, structure: ObjectStructure
    ) -> None:
        _, _, error = a_blocked_queue()
        text = '{\n  "assetnum": "P-1",\n  "priority": "abc"\n}'
        status, page = posted(client, "edit", error, text)
        assert status == 422
        assert "Line 3, column 15:" in page
        assert "Line 1, column 1:" in page, "what is missing is missing in the whole document"
        assert structure.name == "asset"
        assert posted(client, "edit", error, text, anyway="1")[0] == 303

    def test_a_key_that_is_missing_is_told(
        self, client: Client, structure: ObjectStructure
    ) -> None:
        _, _, error = a_blocked_queue()
        _, page = posted(client, "edit", error, '{"siteid": "N"}')
        assert f"{structure.key_paths[0]} finds no value" in page

    def test_a_check_does_not_say_again_what_is_wrong_with_the_text(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        form = {"version": "1", "part": "document", "text": '{\n  "a": 1\n  "b": 2\n}'}
        answer = client.post(reverse("check", args=[error.pk]), form)
        [fault] = answer.context["faults"]
        assert answer.context["check"].said.rstrip(".") == fault.text.rstrip(".")
        assert unescape(answer.text).count(fault.text) == 1
        assert answer.context["check"].result.failure.code in answer.text

    def test_what_is_wrong_now_is_told_when_the_page_opens(
        self, client: Client, structure: ObjectStructure
    ) -> None:
        _, _, error = a_blocked_queue()
        page = unescape(client.get(reverse("edit", args=[error.pk])).text)
        assert "problems.</strong>" in page
        assert "nothing was saved" not in page
        assert structure.json_schema["required"] == ["siteid"]

    def test_many_places_are_found_in_one_pass(self) -> None:
        text = '{"a": [1, {"b": 2}],\n "a": 3, "c": {"d": []}}'
        paths: list[Path] = [("a", 1, "b"), ("c", "d"), (), ("a",), ("x",)]
        found = {paths[0]: (1, 17), paths[1]: (2, 21), paths[2]: (1, 1), paths[3]: (1, 7)}
        assert places_of(text, paths) == found
        assert places_of(text, []) == {}

    @pytest.mark.parametrize(
        ("path", "place"),
        [
            ((), (1, 1)),
            (("a",), (2, 8)),
            (("b", 1), (3, 12)),
            (("b", 1, "c,"), (3, 19)),
            (("d",), None),
        ],
    )
    def test_a_place_is_found_by_its_path(self, path: Path, place: tuple[int, int] | None) -> None:
        text = '{\n  "a": "x, ]{",\n  "b": [7, {"c,": true}]\n}'
        assert places_of(text, [path]).get(path) == place


class TestDifference:
    def test_signs_say_what_is_new_and_what_is_gone(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        _, page = posted(client, "check", error, '{"assetnum": "P-1", "priority": 3}')
        assert re.search(r'class="gone">.*?"priority": "abc"', page, re.DOTALL)
        assert re.search(r'class="new">.*?"priority": 3', page, re.DOTALL)
        assert "1 line added (+), 1 removed (\N{MINUS SIGN})" in page

    def test_an_edited_failure_shows_its_difference_from_the_original(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        posted(client, "edit", error, '{"assetnum": "P-1", "priority": 3}')
        page = unescape(client.get(reverse("failure", args=[error.pk])).text)
        assert "Differences from the original" in page
        assert 'class="gone"' in page

    def test_texts_that_differ_all_over_are_not_compared(self) -> None:
        old, new = ("\n".join(f"{mark}{n}" for n in range(3_000)) for mark in "ab")
        assert difference(old, new).is_long
        assert difference(old, f"{old}\nx").added == 1
        assert difference('{"a":1}', '{\n  "a": 1\n}').is_same


class TestCheck:
    def test_it_shows_the_document_and_keeps_text_and_rows_as_they_are(
        self, client: Client, structure: ObjectStructure
    ) -> None:
        _, _, error = a_blocked_queue()
        text = '{"assetnum": "P-1", "siteid": "N", "priority": 3}'
        status, page = posted(client, "check", error, text)
        assert status == 200
        assert "integration_storedobject: 1 inserted" in page.replace("<code>", "").replace(
            "</code>", ""
        )
        assert f"{structure.name} with the key" in page
        assert f">\n{text}</textarea>" in page
        assert StoredObject.objects.count() == 0
        error.refresh_from_db()
        assert (error.version, error.edited_payload) == (1, None)
        assert error.changes.count() == 0

    def test_it_shows_what_would_be_sent(self, client: Client) -> None:
        EnterpriseService.objects.get_or_create(interface="OBEY")
        a_queue_row(name="out", direction=Queue.Direction.OUTBOUND, topic="out.topic")
        error = a_held(
            a_queue_row(), interface="OBEY", payload=an_envelope({"n": 1}, INTERFACE="OBEY")
        )
        text = '{"n": 7, "do": "publish", "text": "hello there"}'
        _, page = posted(client, "check", error, text)
        assert "out.topic" in page
        assert "hello there" in page
        assert (Effect.objects.count(), OutboxRow.objects.count()) == (0, 0)

    def test_a_failure_is_told_with_what_the_engine_would_do(self, client: Client) -> None:
        EnterpriseService.objects.get_or_create(interface="OBEY")
        error = a_held(
            a_queue_row(), interface="OBEY", payload=an_envelope({"n": 1}, INTERFACE="OBEY")
        )
        _, page = posted(client, "check", error, '{"n": 7, "do": "permanent"}')
        assert "REFUSED" in page
        assert "It would go back on hold at once." in page

    def test_it_needs_the_right_to_edit_payloads(self) -> None:
        _, _, error = a_blocked_queue()
        client = Client()
        client.force_login(a_person("Operators"))
        assert client.post(reverse("check", args=[error.pk]), {"version": 1}).status_code == 403

    def test_one_that_has_moved_on_is_not_run(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        MessageError.objects.update(state="READY")
        assert posted(client, "check", error, "{}")[0] == 409

    def test_the_link_alone_checks_nothing(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        answer = client.get(reverse("check", args=[error.pk]))
        assert (answer.status_code, answer["Location"]) == (
            303,
            reverse("edit", args=[error.pk]),
        )


class TestTwoPeople:
    def test_the_second_sees_both_texts_and_overwrites_only_knowingly(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        other = Client()
        other.force_login(a_person("Editors", "emil"))
        assert posted(other, "edit", error, '{"by": "emil"}')[0] == 303
        status, page = posted(client, "edit", error, '{"by": "edda"}')
        assert status == 409
        assert "emil changed it" in page
        assert re.search(r'class="gone">.*?"by": "emil"', page, re.DOTALL)
        assert re.search(r'class="new">.*?"by": "edda"', page, re.DOTALL)
        error.refresh_from_db()
        assert b"emil" in (error.current_payload or b"")
        assert posted(client, "edit", error, '{"by": "edda"}', over="9")[0] == 409
        over = re.search(r'name="over" value="(\d+)"', page)
        assert over is not None
        assert posted(client, "edit", error, '{"by": "edda"}', over=over[1])[0] == 303
        error.refresh_from_db()
        assert b"edda" in (error.current_payload or b"")
        assert [change.actor for change in error.changes.all()] == ["emil", "edda"]
