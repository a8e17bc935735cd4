"""The outbox page over HTTP: what it tells, who may decide, and that each decision is one."""

import uuid

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from console.models import Limit
from integration.models import ExternalSystem, OutboxChange, OutboxRow, Provider
from integration.selectors.queues.queues import overview
from integration.selectors.queues.status import LiveProcesses, Status
from tests.functional.relay_world import a_dead_row, a_provider, a_relay_in_doubt, states
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def provider() -> Provider:
    return a_provider()


def logged_in(role: str) -> Client:
    client = Client()
    client.force_login(a_person(role))
    return client


def verb(row: OutboxRow, name: str) -> str:
    return reverse("decide-outbox", args=[row.pk, name])


def decisions(provider: Provider) -> list[tuple[str, dict[str, object]]]:
    """Every address that decides something, with a form that would."""
    row = a_dead_row(provider)
    lease, batch = a_relay_in_doubt(a_provider(name="other"))
    mark = f"{row.pk}:{row.batch}"
    return [
        (verb(row, "send-again"), {"batch": row.batch}),
        (verb(row, "give-up"), {"batch": row.batch, "reason": "x"}),
        (reverse("review-outbox"), {"verb": "give-up", "chosen": mark}),
        (reverse("decide-many", args=["give-up"]), {"chosen": mark, "reason": "x"}),
        (reverse("resolve-doubt", args=[lease.pk]), {"batch": batch, "word": "sent"}),
    ]


def test_an_empty_outbox_is_good_news() -> None:
    page = logged_in("Viewers").get(reverse("outbox")).text
    assert "Kafka refused nothing" in page


def test_a_refused_row_tells_why_and_what_to_do(provider: Provider) -> None:
    queue = a_queue_row(name="orders", direction="outbound")
    row = a_dead_row(provider, strict_queue=queue.pk)
    a_dead_row(provider, state="PENDING", strict_queue=queue.pk, dead_code="", dead_text="")
    client = logged_in("Operators")
    for address in (reverse("outbox"), reverse("outbox-row", args=[row.pk])):
        page = client.get(address).text
        assert row.dead_code in page
        assert "max.message.bytes" in page
        assert "The queue orders keeps its order" in page
        assert verb(row, "send-again") in page
    assert "1 message waits behind it" in client.get(reverse("outbox-row", args=[row.pk])).text
    waiting = client.get(reverse("outbox"), {"state": "PENDING"}).text
    assert f"It waits behind row {row.pk}, which Kafka refused" in waiting
    assert "Send again" not in waiting


def test_a_retry_marker_can_only_be_given_up(provider: Provider) -> None:
    row = a_dead_row(provider, kind="TICKET", value=b"")
    page = logged_in("Operators").get(reverse("outbox-row", args=[row.pk])).text
    assert "nothing is lost" in page
    assert verb(row, "give-up") in page
    assert verb(row, "send-again") not in page


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "PENDING"}, "Nobody relays what goes to main"),
        ({"state": "STAMPED"}, "the next one finds out from Kafka"),
        ({"state": "PUBLISHED"}, "It is in Kafka, once"),
        ({"state": "CANCELLED"}, "It is not sent"),
    ],
)
def test_every_state_has_its_sentence_and_no_button(
    provider: Provider, fields: dict[str, str], said: str
) -> None:
    row = a_dead_row(provider, **fields)
    page = logged_in("Operators").get(reverse("outbox-row", args=[row.pk])).text
    assert said in page
    assert "Give up" not in page


def test_a_row_that_waits_for_its_time_says_so(provider: Provider) -> None:
    due = timezone.now() + timezone.timedelta(hours=1)
    row = a_dead_row(provider, state="PENDING", not_before=due)
    page = logged_in("Viewers").get(reverse("outbox-row", args=[row.pk])).text
    assert "It waits for its time" in page


def test_sending_again_comes_back_to_the_list_and_is_noted(provider: Provider) -> None:
    row = a_dead_row(provider)
    client = logged_in("Operators")
    form = {"batch": row.batch, "next": "/outbox/?topic=orders-out"}
    answer = client.post(verb(row, "send-again"), form)
    assert (answer.status_code, answer["Location"]) == (303, form["next"])
    assert states(row.pk) == ["PENDING"]
    assert "Send again:" in client.get(reverse("outbox")).text


def test_giving_up_without_a_reason_is_refused_with_a_sentence(provider: Provider) -> None:
    row = a_dead_row(provider)
    answer = logged_in("Operators").post(verb(row, "give-up"), {"batch": row.batch})
    assert answer.status_code == 409
    assert "a reason is needed" in answer.text
    assert states(row.pk) == ["DEAD"]


def test_who_comes_second_is_told_and_a_second_click_is_harmless(provider: Provider) -> None:
    row = a_dead_row(provider)
    form = {"batch": row.batch, "reason": "sent by mail"}
    first, second = logged_in("Operators"), logged_in("Operators")
    assert first.post(verb(row, "give-up"), form).status_code == 303
    assert first.post(verb(row, "give-up"), form).status_code == 303
    answer = second.post(verb(row, "send-again"), form)
    assert answer.status_code == 409
    assert "decided it at" in answer.text
    assert OutboxChange.objects.count() == 1


def test_a_form_of_an_earlier_refusal_changes_nothing(provider: Provider) -> None:
    row = a_dead_row(provider)
    for batch in (uuid.uuid4(), "", "nonsense"):
        answer = logged_in("Operators").post(verb(row, "send-again"), {"batch": batch})
        assert answer.status_code == 409
    assert states(row.pk) == ["DEAD"]


def test_ticked_rows_are_decided_together_and_the_others_left(provider: Provider) -> None:
    rows = [a_dead_row(provider) for _ in range(3)]
    marks = [f"{row.pk}:{row.batch}" for row in rows[:2]] + [f"{rows[2].pk}:{uuid.uuid4()}"]
    client = logged_in("Operators")
    form = {"chosen": " ".join(marks), "query": "kind=MESSAGE"}
    answer = client.post(reverse("decide-many", args=["send-again"]), form)
    assert answer["Location"] == f"{reverse('outbox')}?kind=MESSAGE"
    assert states(*(row.pk for row in rows)) == ["PENDING", "PENDING", "DEAD"]
    told = client.get(answer["Location"]).text
    assert "2 given back to the relay" in told
    assert "1 had changed" in told


def test_nothing_ticked_is_told(provider: Provider) -> None:
    a_dead_row(provider)
    client = logged_in("Operators")
    client.post(reverse("review-outbox"), {"verb": "send-again"})
    assert "Nothing was selected" in client.get(reverse("outbox")).text


def test_filters_are_exact_and_a_bad_one_is_told(provider: Provider) -> None:
    queue = a_queue_row(name="orders", direction="outbound", provider=provider, topic="of-orders")
    found = a_dead_row(provider, topic=queue.topic, message_id="looked-for")
    other = a_dead_row(provider, message_id="other", dead_code="UNSENDABLE")
    client = logged_in("Viewers")
    for wanted in (
        {"queue": "orders"},
        {"topic": "of-orders"},
        {"message_id": "looked-for"},
        {"code": "MSG_SIZE_TOO_LARGE"},
    ):
        page = client.get(reverse("outbox"), wanted).text
        assert f"Row {found.pk}<" in page
        assert f"Row {other.pk}<" not in page
    odd = client.get(reverse("outbox"), {"state": "nonsense"})
    assert list(odd.context["form"].errors) == ["state"]
    assert "Nothing matches" in client.get(reverse("outbox"), {"queue": "nobody"}).text


def test_pages_follow_the_order_of_sending(provider: Provider) -> None:
    rows = [a_dead_row(provider) for _ in range(52)]
    client = logged_in("Viewers")
    first = client.get(reverse("outbox")).text
    assert f"after={rows[49].pk}" in first
    assert f"Row {rows[50].pk}<" not in first
    second = client.get(reverse("outbox"), {"after": rows[49].pk}).text
    assert f"Row {rows[50].pk}<" in second
    assert f"Row {rows[49].pk}<" not in second
    assert client.get(reverse("outbox"), {"after": "x" * 30}).status_code == 200


@pytest.mark.parametrize(("word", "state"), [("sent", "PUBLISHED"), ("not-sent", "PENDING")])
def test_a_batch_in_doubt_is_decided_as_a_whole(provider: Provider, word: str, state: str) -> None:
    lease, batch = a_relay_in_doubt(provider, rows=3)
    client = logged_in("Operators")
    page = client.get(reverse("outbox")).text
    assert f'id="doubt-{lease.pk}"' in page
    assert "orders-out" in page
    address = reverse("resolve-doubt", args=[lease.pk])
    assert client.post(address, {"batch": batch, "word": word}).status_code == 303
    assert set(states()) == {state}
    assert "3 rows were" in client.get(reverse("outbox")).text
    assert client.post(address, {"batch": batch, "word": word}).status_code == 409


def test_deciding_needs_the_right_and_a_form_of_ours(provider: Provider) -> None:
    viewer = logged_in("Viewers")
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(a_person("Editors"))
    for address, form in decisions(provider):
        assert viewer.post(address, form).status_code == 403
        assert forged.post(address, form).status_code == 403
        assert logged_in("Editors").get(address).status_code == 303
    assert set(states()) == {"DEAD", "STAMPED"}
    assert not OutboxChange.objects.exists()


def test_the_pages_need_the_right_to_see_and_the_payload_its_own(provider: Provider) -> None:
    row = a_dead_row(provider)
    pages = [reverse("outbox"), reverse("outbox-row", args=[row.pk])]
    for address in pages:
        assert logged_in("").get(address).status_code == 403
        seen = logged_in("Viewers").get(address)
        assert seen.status_code == 200
        assert Right.OPERATE.missing in seen.text
        assert "assetnum" not in seen.text
    assert "assetnum" in logged_in("Editors").get(pages[1]).text
    assert logged_in("Viewers").get(reverse("outbox-row", args=[row.pk + 1])).status_code == 404


def test_no_page_asks_more_for_more_rows(
    provider: Provider, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    queue = a_queue_row(direction="outbound")
    for _ in range(20):
        a_dead_row(provider, strict_queue=queue.pk)
    client = logged_in("Operators")
    with django_assert_max_num_queries(20):
        client.get(reverse("outbox"))


def test_the_overview_says_that_a_strict_queue_is_blocked_and_links_to_the_way_out(
    provider: Provider,
) -> None:
    strict = a_queue_row(name="orders", direction="outbound", provider=provider)
    free = a_queue_row("continuous", name="readings", direction="outbound", provider=provider)
    client = logged_in("Viewers")
    assert "Open the outbox" not in client.get(reverse("overview")).text
    row = a_dead_row(provider, topic=strict.topic, strict_queue=strict.pk)
    a_dead_row(provider, topic=free.topic)
    rows = {found.name: found for found in overview(LiveProcesses(workers=1, relays=1, beats=1))}
    assert (rows["orders"].status, rows["readings"].status) == (Status.BLOCKED, Status.RUNNING)
    assert rows["orders"].situation.why.startswith(f"Kafka refused row {row.pk} to {strict.topic}")
    assert "everything else is sent" in rows["readings"].situation.why
    for address in (reverse("overview"), reverse("queue", args=["orders"])):
        assert f"{reverse('outbox')}?queue=orders" in client.get(address).text


def test_a_relay_in_doubt_blocks_every_queue_of_its_provider(provider: Provider) -> None:
    a_queue_row(name="orders", direction="outbound", provider=provider)
    a_queue_row(name="elsewhere", direction="outbound", provider=a_provider(name="other"))
    a_relay_in_doubt(provider)
    rows = {found.name: found for found in overview(LiveProcesses(workers=1, relays=1, beats=1))}
    assert (rows["orders"].status, rows["elsewhere"].status) == (Status.BLOCKED, Status.RUNNING)


def test_without_a_relay_a_blocked_queue_still_says_what_blocks_it(provider: Provider) -> None:
    queue = a_queue_row(name="orders", direction="outbound", provider=provider)
    [row] = overview(LiveProcesses(workers=1, relays=0, beats=1))
    assert row.status is Status.NO_SENDER
    a_dead_row(provider, topic=queue.topic, strict_queue=queue.pk)
    [row] = overview(LiveProcesses(workers=1, relays=0, beats=1))
    assert row.status is Status.BLOCKED
    assert "nothing is sent to Kafka. Besides: Kafka refused row" in row.situation.why


def test_a_limited_person_knows_of_the_rows_of_their_partners_only(provider: Provider) -> None:
    system = ExternalSystem.objects.create(name="erp")
    mine = a_queue_row(name="to-erp", topic="to-erp", direction="outbound", system=system)
    shown = a_dead_row(mine.provider, topic=mine.topic)
    hidden = a_dead_row(provider, topic="to-others")
    person = a_person("Operators")
    Limit.objects.create(person=person).systems.add(system)
    client = Client()
    client.force_login(person)
    page = client.get(reverse("outbox")).text
    assert "to-erp" in page
    assert "to-others" not in page
    assert client.get(reverse("outbox-row", args=[shown.pk])).status_code == 200
    assert client.get(reverse("outbox-row", args=[hidden.pk])).status_code == 404
    answer = client.post(
        reverse("decide-outbox", args=[hidden.pk, "give-up"]),
        {"batch": hidden.batch, "reason": "mine"},
    )
    assert answer.status_code == 404
    both = f"{shown.pk}:{shown.batch} {hidden.pk}:{hidden.batch}"
    client.post(reverse("decide-many", args=["give-up"]), {"chosen": both, "reason": "mine"})
    assert OutboxRow.objects.get(pk=hidden.pk).state == "DEAD"
    assert OutboxRow.objects.get(pk=shown.pk).state == "CANCELLED"
