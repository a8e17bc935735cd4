"""One decision about many outbox rows: reviewed first, then only what was seen is decided."""

import re
import uuid
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from console.models import Limit
from console.outbox.choices import NOTHING
from integration.models import OutboxChange, OutboxRow, Provider
from tests.functional.relay_world import a_dead_row, a_provider, states
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
GIVE_UP = "give-up"


@pytest.fixture
def provider() -> Provider:
    return a_provider()


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators"))
    return client


def mark(row: OutboxRow) -> str:
    return f"{row.pk}:{row.batch or ''}"


def reviewed(client: Client, verb: str, query: str = "", **form: object) -> tuple[str, str]:
    """The review's page, and the choice that it froze."""
    fields = {"verb": verb, "query": query, **form}
    answer = client.post(reverse("review-outbox"), fields)
    assert answer.status_code == 200
    found = re.search(r'name="chosen" value="([^"]*)"', answer.text)
    assert found is not None
    return unescape(answer.text), found[1]


def carry_out(client: Client, verb: str, chosen: str, **form: str) -> str:
    address = reverse("decide-many", args=[verb])
    answer = client.post(address, {"chosen": chosen, "reason": "old", **form}, follow=True)
    assert answer.redirect_chain[0][1] == 303
    return unescape(answer.content.decode())


def test_the_review_says_what_and_how_many_by_queue_and_cause(
    provider: Provider, client: Client
) -> None:
    strict = a_queue_row(name="orders", direction="outbound", provider=provider, topic="of-orders")
    free = a_queue_row(name="readings", direction="outbound", provider=provider, topic="readings")
    for _ in range(2):
        a_dead_row(provider, topic=strict.topic, strict_queue=strict.pk)
    a_dead_row(provider, topic=free.topic, dead_code="UNSENDABLE")
    a_dead_row(provider, topic="of-nobody", kind="TICKET")
    page, chosen = reviewed(client, GIVE_UP, scope="matching")
    assert "Give up 4 rows?" in page
    assert "cannot be undone" in page
    rows = re.findall(r"<tr>(.*?)</tr>", page.split("<tbody>")[1], re.DOTALL)
    told = [" ".join(re.sub(r"<time.*?</time>|<[^>]+>", " ", row).split()) for row in rows]
    assert told == [
        "of-nobody, no queue retry marker MSG_SIZE_TOO_LARGE 1",
        "orders message MSG_SIZE_TOO_LARGE 2",
        "readings message UNSENDABLE 1",
    ]
    assert len(chosen.split()) == 4
    assert set(states()) == {"DEAD"}, "nothing is done yet"


def test_only_what_the_review_showed_is_given_up(provider: Provider, client: Client) -> None:
    seen = [a_dead_row(provider, topic="gone") for _ in range(3)]
    other = a_dead_row(provider)
    _, chosen = reviewed(client, GIVE_UP, "topic=gone", scope="matching")
    unseen = a_dead_row(provider, topic="gone")
    again = OutboxRow.objects.filter(pk=seen[0].pk)
    again.update(batch=uuid.uuid4())
    told = carry_out(client, GIVE_UP, chosen, query="topic=gone")
    assert "2 given up" in told
    assert "1 had changed" in told
    assert states(*(row.pk for row in seen)) == ["DEAD", "CANCELLED", "CANCELLED"]
    assert states(other.pk, unseen.pk) == ["DEAD", "DEAD"]
    assert OutboxChange.objects.count() == 2


def test_ticked_rows_that_moved_on_before_the_review_are_told_there(
    provider: Provider, client: Client
) -> None:
    rows = [a_dead_row(provider) for _ in range(3)]
    stale = f"{rows[1].pk}:{uuid.uuid4()}"
    OutboxRow.objects.filter(pk=rows[2].pk).update(state="PENDING")
    page, chosen = reviewed(
        client, "send-again", chosen=[mark(rows[0]), stale, mark(rows[2]), f"999999:{uuid.uuid4()}"]
    )
    assert "Send 1 row again?" in page
    assert "3 have changed" in page
    told = carry_out(client, "send-again", chosen)
    assert "3 had changed" in told
    assert states(*(row.pk for row in rows)) == ["PENDING", "DEAD", "PENDING"]


def test_a_row_that_was_never_in_a_batch_is_frozen_so(provider: Provider, client: Client) -> None:
    row = a_dead_row(provider, batch=None)
    _, chosen = reviewed(client, GIVE_UP, chosen=[mark(row)])
    assert chosen == f"{row.pk}:"
    assert "1 given up" in carry_out(client, GIVE_UP, chosen)


def test_where_nothing_is_left_to_decide_the_button_is_dead(
    provider: Provider, client: Client
) -> None:
    row = a_dead_row(provider, state="PENDING")
    page, _ = reviewed(client, GIVE_UP, chosen=[mark(row)])
    assert re.search(r"<button[^>]*disabled[^>]*>Give up 0 rows", page)


def test_giving_up_without_a_reason_shows_the_review_again(
    provider: Provider, client: Client
) -> None:
    row = a_dead_row(provider)
    form = {"chosen": mark(row), "reason": " ", "query": "topic=orders-out"}
    answer = client.post(reverse("decide-many", args=[GIVE_UP]), form)
    assert answer.status_code == 422
    assert "a reason is needed" in answer.text
    assert mark(row) in answer.text
    assert states(row.pk) == ["DEAD"]


def test_all_that_match_takes_only_rows_kafka_refused(provider: Provider, client: Client) -> None:
    row = a_dead_row(provider, topic="gone", state="PENDING")
    form = {"verb": GIVE_UP, "scope": "matching", "query": "topic=gone&state=PENDING"}
    answer = client.post(reverse("review-outbox"), form, follow=True)
    assert NOTHING in answer.text
    assert states(row.pk) == ["PENDING"]


def test_both_steps_need_a_post_a_verb_and_the_right(provider: Provider, client: Client) -> None:
    row = a_dead_row(provider)
    form = {"verb": GIVE_UP, "chosen": mark(row), "reason": "x"}
    review, decide = reverse("review-outbox"), reverse("decide-many", args=[GIVE_UP])
    viewer = Client()
    viewer.force_login(a_person("Viewers"))
    for address in (review, decide):
        assert client.get(address)["Location"] == reverse("outbox")
        assert viewer.post(address, form).status_code == 403
    assert client.post(review, {**form, "verb": "explode"})["Location"] == reverse("outbox")
    assert client.post(reverse("decide-many", args=["explode"]), form).status_code == 404
    assert states(row.pk) == ["DEAD"]


def test_the_number_of_statements_does_not_grow_with_the_choice(
    provider: Provider, client: Client, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    marks = [mark(a_dead_row(provider, topic=f"topic-{number}")) for number in range(20)]
    with django_assert_max_num_queries(13):
        reviewed(client, GIVE_UP, chosen=marks)


@pytest.mark.parametrize("verb", ["send-again", "give-up"])
def test_rows_that_a_person_may_not_know_of_are_nothing_chosen(verb: str) -> None:
    row = a_dead_row(a_provider())
    person = a_person("Operators")
    Limit.objects.create(person=person)
    client = Client()
    client.force_login(person)
    form = {"chosen": f"{row.pk}:{row.batch}", "verb": verb, "scope": "chosen", "reason": "x"}
    for address in (reverse("review-outbox"), reverse("decide-many", args=[verb])):
        told = client.post(address, form, follow=True).text
        assert NOTHING in told
    assert states() == ["DEAD"]
