"""`manage.py outbox`: the same decisions from a terminal, with sentences and exit codes."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from integration.models import OutboxChange, OutboxRow, Provider
from tests.functional.relay_world import a_dead_row, a_provider, a_relay_in_doubt, states
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def provider() -> Provider:
    return a_provider()


def outbox(*words: object) -> tuple[int, str]:
    """The exit code and everything said."""
    said = StringIO()
    try:
        call_command("outbox", *map(str, words), stdout=said)
    except CommandError as e:
        return e.returncode, f"{said.getvalue()}{e}"
    except SystemExit as e:
        return int(str(e.code)), said.getvalue()
    return 0, said.getvalue()


def test_an_empty_outbox_is_fine() -> None:
    assert outbox("list") == (0, "Kafka refused nothing.\n")


def test_the_list_tells_what_to_do_and_ends_with_one(provider: Provider) -> None:
    row = a_dead_row(provider)
    code, said = outbox("list")
    assert code == 1
    assert f"Row {row.pk} to orders-out, message plant/EAM/1" in said
    assert "-> Raise max.message.bytes of the topic" in said
    a_dead_row(provider, topic="gone")
    assert "1 of 2 rows" in outbox("list", "--limit", 1)[1]
    assert outbox("list", "--topic", "gone")[1].count("Row ") == 1
    # What waits for a person counts, whatever is shown.
    assert outbox("list", "--state", "waiting") == (1, "Nothing to show.\n")


def test_rows_are_sent_again_by_number(provider: Provider) -> None:
    rows = [a_dead_row(provider) for _ in range(2)]
    code, said = outbox("send-again", *(row.pk for row in rows), "--actor", "anna")
    assert (code, said.split()[0]) == (0, "2")
    assert set(states()) == {"PENDING"}
    assert set(OutboxChange.objects.values_list("actor", flat=True)) == {"anna"}


def test_rows_are_given_up_by_filter_and_the_terminals_user_is_noted(provider: Provider) -> None:
    queue = a_queue_row(direction="outbound", provider=provider)
    gone, kept = a_dead_row(provider, topic=queue.topic), a_dead_row(provider)
    assert outbox("give-up", "--queue", queue.name, "--reason", "old")[0] == 0
    assert states(gone.pk, kept.pk) == ["CANCELLED", "DEAD"]
    change = OutboxChange.objects.get()
    assert change.actor.endswith(" (terminal)")
    assert change.reason == "old"


def test_what_is_not_refused_is_left_alone_and_told(provider: Provider) -> None:
    dead, sent = a_dead_row(provider), a_dead_row(provider, state="PUBLISHED")
    code, said = outbox("send-again", dead.pk, sent.pk)
    assert code == 1
    assert "1 row(s) were given back" in said
    assert "1 were left alone" in said
    assert states(dead.pk, sent.pk) == ["PENDING", "PUBLISHED"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("give-up", "{row}"), "a reason is needed"),
        (("give-up", "--reason", "all of it"), "Name rows by their numbers"),
        (("give-up", "{row}", "--topic", "orders-out", "--reason", "x"), "Name rows"),
        (("send-again", "{row}", "987654"), "Not in the outbox: 987654"),
        (("send-again", "--topic", "nobody"), "No refused row matches"),
        (("sent", "main"), "In doubt are: none"),
    ],
)
def test_a_request_that_cannot_be_meant_changes_nothing(
    provider: Provider, words: tuple[str, ...], why: str
) -> None:
    row = a_dead_row(provider)
    code, said = outbox(*(word.format(row=row.pk) for word in words))
    assert code == 2
    assert why in said
    assert states(row.pk) == ["DEAD"]
    assert not OutboxChange.objects.exists()


@pytest.mark.parametrize(("word", "state"), [("sent", "PUBLISHED"), ("not-sent", "PENDING")])
def test_a_batch_in_doubt_is_shown_and_decided(provider: Provider, word: str, state: str) -> None:
    a_relay_in_doubt(provider, rows=3)
    code, said = outbox("list")
    assert code == 1
    assert "IN DOUBT" in said
    assert f"manage.py outbox {word} main" in said
    code, said = outbox(word, "main", "--reason", "looked")
    assert code == 0
    assert "3 row(s) were" in said
    assert set(states()) == {state}
    assert outbox("list")[0] == 0


def test_each_shard_in_doubt_is_decided_by_its_number(provider: Provider) -> None:
    Provider.objects.update(shards=2)
    for shard, topic in ((1, "workorders"), (0, "orders")):
        place = {"first_bucket": shard * 128, "end_bucket": shard * 128 + 128}
        _, batch = a_relay_in_doubt(provider, rows=shard + 1, shard=shard, **place)
        OutboxRow.objects.filter(batch=batch).update(topic=topic)
    assert "manage.py outbox sent main/1" in outbox("list")[1]
    assert outbox("sent", "main")[0] == 2
    code, said = outbox("sent", "main/1", "--reason", "looked")
    assert (code, said.split()[0]) == (0, "2")
    assert states() == ["PUBLISHED", "PUBLISHED", "STAMPED"]
    assert outbox("not-sent", "main/0")[0] == 0
