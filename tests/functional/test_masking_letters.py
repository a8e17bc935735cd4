"""Dead letters under masking: what other applications' headers tell of them is hidden, too."""

from base64 import b64encode
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from integration.models import MessageError, OutboxRow
from integration.selectors.failures import failures
from integration.selectors.failures.failures import WITHOUT, FailureFilter
from integration.selectors.failures.returns import refusal
from integration.selectors.scope import EVERYTHING
from tests.functional.test_masking import SECRET, a_failure, a_rule, page_of, revealing
from tests.functional.test_masking_planted import person_without, somebody
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_queue_row, left_alone

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
TOPIC, CLASS, GROUP = "orders-of-4711", "com.example.No4711Error", "group-of-4711"
TOLD = {
    "kafka_dlt-original-topic": TOPIC.encode(),
    "kafka_dlt-original-partition": (17).to_bytes(4, "big"),
    "kafka_dlt-original-offset": (4_242).to_bytes(8, "big"),
    "kafka_dlt-original-consumer-group": GROUP.encode(),
    "kafka_dlt-exception-fqcn": CLASS.encode(),
}
EVERY_HEADER = {"part": "header", "path": "*"}


def a_letter(**fields: Any) -> MessageError:
    return a_failure(
        code="DEAD_LETTER",
        headers=[[name, b64encode(value).decode()] for name, value in TOLD.items()],
        origin_topic=TOPIC,
        origin_partition=17,
        origin_offset=4_242,
        cause_class=CLASS,
        **fields,
    )


def found(**filters: str) -> int:
    return failures.count(FailureFilter(**filters), EVERYTHING)


def listed(client: Client, **filters: str) -> str:
    return client.get(reverse("failure-list"), filters).text


def test_what_hidden_headers_tell_is_on_no_page_and_in_no_list() -> None:
    letter, client = a_letter(), somebody(Right.REVEAL)
    program = a_program(person=person_without(Right.REVEAL))
    for told in (TOPIC, CLASS, GROUP, "partition 17", "offset 4,242"):
        assert told in page_of(client, letter)
    assert facts(program.get("/failures"))["failures"][0]["origin_topic"] == TOPIC
    a_rule(**EVERY_HEADER)
    page = page_of(client, letter)
    for told in (TOPIC, CLASS, GROUP, "partition 17", "offset 4,242"):
        assert told not in page
    assert "Spring Kafka" in page
    assert "origin_topic=" not in page, "nothing is found by it"
    assert TOPIC not in listed(client)
    [line] = facts(program.get("/failures"))["failures"]
    assert line["origin_topic"] == "⟦masked⟧"
    client = revealing()
    client.post(reverse("reveal", args=[letter.pk]), {"reason": "where did it come from"})
    assert TOPIC in page_of(client, letter)


@pytest.mark.parametrize(
    ("path", "hidden", "seen"),
    [
        ("kafka_dlt-original-topic", {TOPIC}, {CLASS, GROUP}),
        ("kafka_dlt-original-offset", {"offset 4,242"}, {TOPIC, CLASS, GROUP}),
        ("kafka_dlt-exception-fqcn", {CLASS}, {TOPIC, GROUP}),
        ("kafka_dlt-original-consumer-group", {GROUP}, {TOPIC, CLASS}),
        ("tenant", set(), {TOPIC, CLASS, GROUP, "offset 4,242"}),
    ],
)
def test_a_rule_for_one_header_hides_what_that_one_tells(
    path: str, hidden: set[str], seen: set[str]
) -> None:
    letter = a_letter()
    a_rule(part="header", path=path)
    page = page_of(somebody(Right.REVEAL), letter)
    assert {told for told in hidden if told in page} == set()
    assert {told for told in seen if told not in page} == set()


def test_nobody_finds_a_letter_by_what_is_hidden() -> None:
    letter, client = a_letter(), somebody(Right.REVEAL)
    program = a_program(person=person_without(Right.REVEAL))
    a_failure()
    asked: list[dict[str, str]] = [{"origin_topic": TOPIC}, {"cause_class": CLASS}]
    for filters in asked:
        assert found(**filters) == 1
        assert str(letter.pk) in listed(client, **filters)
    a_rule(**EVERY_HEADER)
    for filters in asked:
        assert found(**filters) == 0
        assert str(letter.pk) not in listed(client, **filters)
        assert facts(program.get("/failures", **filters))["failures"] == []
    assert found(origin_topic=WITHOUT) == 1, "that no header tells a topic is not hidden"
    assert found(code="DEAD_LETTER") == 1


def test_of_a_queue_that_no_rule_is_for_letters_are_found() -> None:
    letter = a_letter()
    a_rule(queue=a_queue_row(), **EVERY_HEADER)
    assert found(origin_topic=TOPIC, cause_class=CLASS) == 1
    assert TOPIC in page_of(somebody(Right.REVEAL), letter)


def test_it_goes_back_to_its_topic_all_the_same() -> None:
    letter, client = a_letter(), somebody(Right.REVEAL)
    a_rule(**EVERY_HEADER)
    address = reverse("send-back", args=[letter.pk])
    assert client.post(address, {"version": letter.version}).status_code == 303
    assert OutboxRow.objects.get().topic == TOPIC


def test_why_it_may_not_go_back_names_no_hidden_topic() -> None:
    queue = a_queue_row("continuous", topic=TOPIC)
    assert TOPIC in refusal(queue, TOPIC)
    a_rule(**EVERY_HEADER)
    assert refusal(queue, TOPIC).startswith("It came from ⟦masked⟧, which")


def test_what_an_operation_says_of_a_message_is_covered_in_its_account() -> None:
    error, client = a_failure(), somebody(Right.REVEAL)
    left_alone(error, [error.queue_id], "An edit", f"It does not fit: {SECRET}.")
    assert SECRET in page_of(client, error)
    a_rule()
    assert SECRET not in page_of(client, error)


def test_the_account_of_a_failure_names_no_hidden_sender() -> None:
    headers = [["sluice-sender", b64encode(b"PLANT-4711").decode()]]
    error = a_failure(headers=headers, kafka_timestamp=timezone.now(), message_id="m-1")
    client = somebody(Right.REVEAL)
    story = reverse("tracked-message")
    assert "PLANT-4711 (according to its header)" in page_of(client, error)
    assert "PLANT-4711" in client.get(story, {"id": "m-1"}).text
    a_rule(part="header", path="sluice-sender")
    assert "PLANT-4711" not in page_of(client, error)
    assert "PLANT-4711" not in client.get(story, {"id": "m-1"}).text
