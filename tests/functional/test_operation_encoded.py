"""Bulk edits of messages of a registry: by their own schemas, and patient with an absent one."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse

from crontasks.running import operating
from integration.actions import operation_trials, operations
from integration.models import MessageError, Operation, Provider, Queue
from integration.policy.states import OperationState
from integration.registries import known
from integration.selectors.operations.plans import diffs
from tests.support.avro import ORDER, an_avro
from tests.support.operations import outcomes, plan, run, started
from tests.support.rows import a_held, a_person, a_place, a_queue_row
from tests.support.small_registry import SmallRegistry

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]

CHANGE = '[{"op":"replace","path":"/do","value":"ok"}]'


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """As a new process: nothing is known of any registry."""
    known.forget_everything()
    yield
    known.forget_everything()


@pytest.fixture
def queue(small_registry: SmallRegistry) -> Queue:
    queue = a_queue_row("continuous")
    a_place(queue)
    Provider.objects.filter(pk=queue.provider_id).update(registry_url=small_registry.url)
    small_registry.put(7, ORDER, subject=f"{queue.topic}-value")
    return queue


def an_order(n: int, do: str = "wrong") -> bytes:
    return an_avro({"n": n, "do": do})


def held(queue: Queue, *payloads: bytes) -> None:
    for n, payload in enumerate(payloads):
        more = {"headers": [], "interface": "", "arrival_batch": 1, "arrival_index": n}
        a_held(queue, n, payload=payload, **more)


def an_edit() -> Operation:
    operation = plan("edit")
    operations.set_recipe(operation.pk, CHANGE, version=operation.version)
    return tried(operation)


def tried(operation: Operation) -> Operation:
    operation_trials.go_on_trying(operation.pk)
    operation.refresh_from_db()
    return operation


def now_read() -> list[bytes]:
    rows = MessageError.objects.order_by("offset")
    return [bytes(row.current_payload or b"") for row in rows]


def test_each_message_is_written_by_its_own_schema_with_its_own_verdict(queue, small_registry):
    later = {**ORDER, "fields": [*ORDER["fields"], {"name": "x", "type": "string"}]}
    small_registry.put(8, later, subject=f"{queue.topic}-value", version=2)
    small_registry.put(9, {**ORDER, "fields": [{"name": "do", "type": "int"}]})
    newer = [an_avro({"n": 1, "do": do, "x": "y"}, later, 8) for do in ("wrong", "ok")]
    no_text = an_avro({"do": 5}, {**ORDER, "fields": [{"name": "do", "type": "int"}]}, 9)
    came = [
        an_order(0),
        newer[0],
        b'{"do":"wrong"}',
        no_text,
        an_order(4)[:-1],
        b"\0\0\0\0\x63x",
        an_order(6, "ok"),
    ]
    held(queue, *came)

    operation = an_edit()

    trial = operation_trials.trial_of(operation)
    assert (trial.at, trial.fits, trial.same, trial.invalid, trial.lacks) == (7, 3, 1, 3, "")
    assert {why.partition(":")[0] for why in trial.reasons} > {"SCHEMA_MISFIT", "SCHEMA_UNKNOWN"}
    first = diffs(operation, trial.samples)[0]
    told = [(line.sign, line.text.strip(" ,")) for line in first.lines if line.sign != " "]
    assert told == [("-", '"do": "wrong"'), ("+", '"do": "ok"')]
    client = Client()
    client.force_login(a_person("Editors"))
    page = client.get(reverse("operation", args=[operation.pk])).text
    assert page.count("&quot;do&quot;: &quot;wrong&quot;") > 1, "the first one, and the changes"

    released = started(operation, reason="agreed", release_after_edit=True)
    assert run(released) is OperationState.DONE
    ended = ["DONE", "DONE", "DONE", "INVALID", "INVALID", "INVALID", "DONE"]
    assert outcomes(released) == ended
    assert now_read() == [an_order(0, "ok"), newer[1], b'{"do":"ok"}', *came[3:]]
    assert [bytes(row.payload) for row in MessageError.objects.order_by("offset")] == came
    states = MessageError.objects.order_by("offset").values_list("state", flat=True)
    assert list(states) == ["READY" if end == "DONE" else "HOLD" for end in ended]


def test_a_dry_run_waits_for_the_registry_and_calls_no_message_wrong(queue, small_registry):
    held(queue, an_order(0), b'{"do":"wrong"}')
    small_registry.status = 503
    operation = an_edit()
    trial = operation_trials.trial_of(operation)
    assert (trial.at, trial.invalid, operation.is_tried) == (0, 0, False)
    assert trial.lacks.startswith("REGISTRY_AWAY")
    client = Client()
    client.force_login(a_person("Editors"))
    page = client.get(reverse("operation", args=[operation.pk])).text
    assert "it answers 503" in page
    assert 'hx-trigger="submit"' in page, "the page does not ask again and again by itself"

    small_registry.status = 200
    known.forget_everything()
    trial = operation_trials.trial_of(tried(operation))
    assert (trial.at, trial.fits, trial.lacks, operation.is_tried) == (2, 2, "", True)

    small_registry.status = 503
    known.forget_everything()
    answer = client.get(reverse("operation", args=[operation.pk]))
    assert answer.status_code == 200
    assert "It cannot be shown now." in answer.text


def test_an_edit_pauses_while_the_registry_is_away_and_goes_on(queue, small_registry, monkeypatch):
    held(queue, an_order(0), an_order(1))
    operation = started(an_edit(), reason="agreed")
    small_registry.status = 401
    known.forget_everything()
    monkeypatch.setattr(operating, "_PATIENCE_SECONDS", 0.0)

    assert run(operation) is OperationState.PAUSED
    assert operation.why_paused.startswith("REGISTRY_REFUSED")
    assert outcomes(operation) == ["", ""]
    assert set(MessageError.objects.values_list("version", "state")) == {(1, "HOLD")}

    small_registry.status = 200
    known.forget_everything()
    operations.resume(operation.pk, version=operation.version, actor="otto")
    assert run(operation) is OperationState.DONE
    assert now_read() == [an_order(0, "ok"), an_order(1, "ok")]


def test_an_edit_outlasts_a_short_outage(queue, small_registry, monkeypatch):
    held(queue, an_order(0))
    operation = started(an_edit(), reason="agreed")
    known.forget_everything()
    monkeypatch.setattr(known, "AGAIN_SECONDS", 0.0)
    answer = small_registry.answer

    def away_once(_: str) -> tuple[int, object]:
        small_registry.answer = answer
        return 503, {}

    small_registry.answer = away_once
    assert run(operation) is OperationState.DONE
    assert small_registry.answer == answer, "it was asked"
    assert now_read() == [an_order(0, "ok")]
