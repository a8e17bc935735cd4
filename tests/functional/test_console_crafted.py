"""Forms that the console did not make: each is refused in words, none breaks a page."""

from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from integration.models import MessageError, OutboxRow
from tests.functional.relay_world import a_dead_row, a_provider, a_relay_in_doubt, states
from tests.support.rows import a_held, a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
DIGITS = "9" * 5_000
BEYOND_BIGINT = "9" * 30
LISTS = [("review", "release", "code"), ("review-outbox", "give-up", "code")]
SPOILT_QUERIES = {
    "a NUL in the nested filter": "code=%00",
    "a NUL in a name": "co%00de=x",
    "a line break": "code=a\r\nb",
    "a character no address holds": "code=\N{LATIN SMALL LETTER U WITH DIAERESIS}",
    "more than any filter says": f"code=x&message_id={'m' * 5_000}",
}
UNREADABLE = {
    "no choice of ours": "state=FOO",
    "too long": f"message_id={'m' * 1_001}",
    "half of it good": "code=MSG_SIZE_TOO_LARGE&state=FOO",
    "a filter there is not": "codee=MSG_SIZE_TOO_LARGE",
    "one filter twice": "code=A&code=B",
}


@pytest.fixture
def client() -> Client:
    """A broken page is an answer here, as it is for a person, and not an exception."""
    client = Client(raise_request_exception=False)
    client.force_login(a_person("Editors"))
    return client


def refused(answer: object) -> bool:
    """Whether it is the page that says what was not understood, beyond the bare status."""
    text = getattr(answer, "text", "")
    return getattr(answer, "status_code", 0) == 400 and "Nothing was changed" in text


def rows() -> tuple[MessageError, OutboxRow]:
    return a_held(a_queue_row("continuous")), a_dead_row(a_provider())


def untouched() -> bool:
    return states() == ["DEAD"] and not MessageError.objects.exclude(state="HOLD").exists()


@pytest.mark.parametrize("scope", ["matching", ""])
@pytest.mark.parametrize(("page", "verb", "_"), LISTS)
def test_a_filter_no_list_writes_is_refused_before_a_choice(
    client: Client, page: str, verb: str, _: str, scope: str
) -> None:
    error, row = rows()
    chosen = f"{error.pk}:1" if page == "review" else f"{row.pk}:{row.batch}"
    for why, query in SPOILT_QUERIES.items():
        form = {"verb": verb, "scope": scope, "query": query, "chosen": chosen}
        answer = client.post(reverse(page), form)
        assert refused(answer), why
        assert "filter" in answer.text, why


def test_nothing_is_carried_out_that_cannot_lead_back_to_its_list(client: Client) -> None:
    _, row = rows()
    for why, query in SPOILT_QUERIES.items():
        form = {"query": query, "chosen": f"{row.pk}:{row.batch}", "reason": "x"}
        assert refused(client.post(reverse("decide-many", args=["give-up"]), form)), why
        assert untouched(), why


@pytest.mark.parametrize(("page", "verb", "_"), LISTS)
def test_all_that_match_a_filter_read_only_in_part_is_refused(
    client: Client, page: str, verb: str, _: str
) -> None:
    rows()
    for why, query in UNREADABLE.items():
        answer = client.post(reverse(page), {"verb": verb, "scope": "matching", "query": query})
        assert refused(answer), why
        assert len(answer.text) < 10_000, "what was sent is not repeated whole"


@pytest.mark.parametrize(("page", "verb", "_"), LISTS)
def test_ticked_rows_of_a_list_with_an_unreadable_filter_can_be_chosen(
    client: Client, page: str, verb: str, _: str
) -> None:
    error, row = rows()
    chosen = f"{error.pk}:1" if page == "review" else f"{row.pk}:{row.batch}"
    form = {"verb": verb, "query": "state=FOO", "chosen": chosen}
    # Of failures a stored operation is made, whose page comes next.
    assert client.post(reverse(page), form).status_code == (303 if page == "review" else 200)


@pytest.mark.parametrize("address", ["failure-list", "outbox"])
def test_a_list_that_leaves_out_a_part_of_its_filter_offers_no_choice_of_all(
    client: Client, address: str
) -> None:
    rows()
    name = 'name="scope" value="matching"'
    query = {"message_id": "", "since": "nonsense", "kind": "FOO"}
    assert f"{name} disabled" in client.get(reverse(address), query).text
    readable = client.get(reverse(address)).text
    assert name in readable
    assert f"{name} disabled" not in readable


def spoilt_marks() -> list[tuple[str, list[str]]]:
    some = uuid4()
    of_failures = ["x", "x:1", f"{some}:", f"{some}:x", f"{some}:{DIGITS}", f"{some}:-1"]
    of_rows = ["x", "x:y", f"1:{DIGITS}", f"{DIGITS}:{some}", f"{BEYOND_BIGINT}:{some}", "1:y"]
    return [("failures", of_failures), ("outbox", of_rows)]


def test_a_mark_that_is_none_is_refused_where_it_is_ticked_and_where_it_is_carried_out(
    client: Client,
) -> None:
    rows()
    steps = {
        "failures": (reverse("review"),),
        "outbox": (reverse("review-outbox"), reverse("decide-many", args=["give-up"])),
    }
    verbs = {"failures": "release", "outbox": "give-up"}
    for place, marks in spoilt_marks():
        for mark in marks:
            for address in steps[place]:
                form = {"verb": verbs[place], "chosen": mark, "reason": "x"}
                answer = client.post(address, form)
                assert refused(answer), (address, mark[:60])
                assert "choice" in answer.text
                assert len(answer.text) < 10_000
    assert untouched()


def test_more_marks_than_one_action_takes_are_refused_not_cut(client: Client) -> None:
    error, row = rows()
    for address, mark in (
        (reverse("review"), f"{error.pk}:1 "),
        (reverse("decide-many", args=["give-up"]), f"{row.pk}:{row.batch} "),
    ):
        form = {"verb": "release", "chosen": mark * 10_001, "reason": "x"}
        answer = client.post(address, form)
        assert refused(answer)
        assert "10,000" in answer.text
    assert untouched()


@pytest.mark.parametrize("number", [BEYOND_BIGINT, DIGITS])
def test_a_number_beyond_every_table_names_nothing(client: Client, number: str) -> None:
    provider = a_provider()
    a_relay_in_doubt(provider)
    for address in (f"/outbox/{number}/", f"/cron/{number}/"):
        assert client.get(address).status_code == 404
    for address in (
        f"/outbox/{number}/send-again/",
        f"/outbox/{number}/give-up/",
        f"/outbox/doubts/{number}/",
        f"/cron/{number}/runs/",
    ):
        answer = client.post(address, {"reason": "x", "word": "sent", "batch": uuid4()})
        assert answer.status_code in {404, 409}, address
    assert client.get(reverse("outbox"), {"after": number}).status_code == 200


@pytest.mark.parametrize("wanted", ["/" + "a" * 5_000, "/a\r\nb", "http://[", "/\u00fc"])
def test_a_verb_that_is_done_always_leads_to_a_page(client: Client, wanted: str) -> None:
    error, _ = rows()
    form = {"version": 1, "next": wanted}
    answer = client.post(reverse("release", args=[error.pk]), form)
    assert answer.status_code == 303
    assert "\r" not in answer["Location"]
    error.refresh_from_db()
    assert error.state == "READY"


def test_a_session_cookie_with_a_nul_character_is_refused_in_words() -> None:
    client = Client(raise_request_exception=False)
    client.cookies.load('sessionid="\\000aaaaaaaaaaaa"')
    answer = client.get(reverse("failures"))
    assert answer.status_code == 400
    assert "NUL character" in answer.text


@pytest.mark.parametrize("moment", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_the_first_and_the_last_moment_there_is_are_filters(client: Client, moment: str) -> None:
    for name in ("since", "until"):
        assert client.get(reverse("failure-list"), {name: moment}).status_code == 200


@pytest.mark.parametrize("text", ["\\ud800", "a\\u0000b"])
@pytest.mark.parametrize("place", ["name", "value"])
def test_a_job_request_of_what_no_text_holds_is_refused(
    client: Client, text: str, place: str
) -> None:
    said = f'{{"{text}": "x"}}' if place == "name" else f'{{"source": "{text}"}}'
    for button in ("look", "ask", "edit"):
        answer = client.post(
            reverse("bulk-new", args=["import"]), {button: "1", "job_request": said}
        )
        assert answer.status_code == 400, button
        assert "job_request" in answer.text
