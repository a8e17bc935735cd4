"""Bulk edits: tried on all messages first, exact, told for each message why it does not fit."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from integration.actions import operation_trials, operations
from integration.actions.errors import BadRecipeError, ReasonMissingError, RecipeUntriedError
from integration.models import ErrorChange, MessageError, Operation
from integration.policy.states import OperationState
from integration.selectors.operations import operations as found
from integration.selectors.operations.plans import UNCOMPARED, diffs
from integration.store import operations as store
from tests.support.operations import outcomes, plan, run, some_held, started
from tests.support.rows import a_held, a_person, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def edit(operation: Operation, recipe: str) -> Operation:
    operations.set_recipe(operation.pk, recipe, version=operation.version)
    operation_trials.go_on_trying(operation.pk)
    operation.refresh_from_db()
    return operation


SITE = '[{"op":"replace","path":"/priority","value":3}]'


def test_an_edit_is_tried_on_all_before_it_may_start():
    some_held(3)
    a_held(a_queue_row("continuous"), payload=an_envelope({"assetnum": "P-2"}))
    a_held(a_queue_row("continuous"), payload=b"<xml/>")
    operation = plan("edit")
    with pytest.raises(RecipeUntriedError):
        started(operation, reason="x")
    for recipe in ("nonsense", SITE.replace("3", '"⟦masked 1⟧"')):
        with pytest.raises(BadRecipeError):
            operations.set_recipe(operation.pk, recipe, version=operation.version)
    edit(operation, SITE)
    trial = operation_trials.trial_of(operation)
    assert (trial.at, trial.fits, trial.invalid) == (5, 3, 2)
    assert len(trial.reasons) == 2
    assert any("“replace /priority”" in why for why in trial.reasons)
    assert MessageError.objects.filter(edited_payload=None, version=1).count() == 5
    with pytest.raises(ReasonMissingError):
        started(operation)
    operations.set_recipe(operation.pk, SITE.replace("3", "4"), version=operation.version)
    operation.refresh_from_db()
    assert operation.trial is None, "another change has a dry run of its own"


@pytest.mark.parametrize("release", [True, False])
def test_an_edit_changes_keeps_the_envelope_and_releases_in_one_commit(release):
    exact = '{"priority":"abc","big":12345678901234567890,"price":1.10,"tiny":1E-30}'
    record = an_envelope(None, compressed=False).replace(b'"null"', json_text(exact))
    row = some_held(1, payload=record)[0]
    operation = edit(plan("edit"), SITE)
    started(operation, reason="agreed", release_after_edit=release)
    assert run(operation) is OperationState.DONE
    row.refresh_from_db()
    changed = bytes(row.edited_payload)
    assert bytes(row.payload) == record
    assert b'"INTERFACE":"MXASSETInterface"' in changed
    assert (
        json_text('{"priority":3,"big":12345678901234567890,"price":1.10,"tiny":1E-30}') in changed
    )
    assert (row.state, row.version) == (("READY", 3) if release else ("HOLD", 2))
    actions = list(ErrorChange.objects.values_list("action", flat=True))
    assert actions == (["edit", "release"] if release else ["edit"])
    assert bytes(ErrorChange.objects.get(action="edit").payload_before) == record
    [item] = operation.items.all()
    assert (item.outcome, item.version_after) == ("DONE", row.version)


def json_text(text: str) -> bytes:
    return json.dumps(text).encode()


def test_messages_the_edit_does_not_fit_are_skipped_and_told_why():
    good = some_held(1)[0]
    bad = a_held(good.queue, 5, payload=an_envelope({"assetnum": "P-2"}))
    same = a_held(good.queue, 6, payload=an_envelope({"priority": 3}))
    operation = edit(plan("edit"), SITE)
    started(operation, reason="agreed")
    run(operation)
    by_error = {item.error_id: item for item in operation.items.all()}
    assert by_error[good.pk].outcome == "DONE"
    assert by_error[same.pk].outcome == "UNCHANGED"
    assert by_error[bad.pk].outcome == "INVALID"
    assert "finds nothing there" in by_error[bad.pk].text
    assert MessageError.objects.get(pk=bad.pk).version == 1
    counts = [count for outcome, _, count in found.skips(operation) if outcome == "INVALID"]
    assert counts == [1]


def test_sample_diffs_show_the_line_that_changes():
    some_held(2)
    operation = edit(plan("edit"), SITE)
    shown = diffs(operation, operation_trials.trial_of(operation).samples)
    assert [diff.number for diff in shown] == [1, 2]
    changed = [(line.sign, line.text.strip()) for line in shown[0].lines if line.sign != " "]
    assert changed == [("-", '"priority": "abc"'), ("+", '"priority": 3')]


def test_a_message_whose_lines_repeat_too_often_is_tried_and_not_compared():
    numbers = [n % 200 for n in range(40_000)]
    held = a_held(a_queue_row("continuous"), payload=an_envelope({"numbers": numbers}))
    ends = [{"op": "replace", "path": f"/numbers/{n}", "value": -1} for n in (0, 39_999)]
    operation = edit(plan("edit"), json.dumps(ends))
    trial = operation_trials.trial_of(operation)
    [shown] = diffs(operation, trial.samples)
    assert (trial.fits, shown.error, shown.lines, shown.lacks) == (1, held.pk, [], UNCOMPARED)
    client = Client()
    client.force_login(a_person("Editors"))
    assert UNCOMPARED in client.get(reverse("operation", args=[operation.pk])).text


def test_a_dry_run_goes_on_where_the_last_request_ended():
    some_held(3)
    operation = plan("edit")
    operations.set_recipe(operation.pk, SITE, version=operation.version)
    assert operation_trials.go_on_trying(operation.pk, seconds=0).at == 0
    assert operation_trials.go_on_trying(operation.pk).fits == 3
    assert operation_trials.go_on_trying(operation.pk).fits == 3, "it is over"


def test_no_more_is_read_at_once_than_a_process_can_bear(monkeypatch):
    rows = some_held(5)
    read, contents = [], store.contents
    size = len(rows[0].payload)
    monkeypatch.setattr(store, "CONTENT_BYTES", 2 * size)

    def noted(errors, state=None):
        read.append(len(errors))
        return contents(errors, state)

    monkeypatch.setattr(store, "contents", noted)
    operation = edit(plan("edit"), SITE)
    assert operation_trials.trial_of(operation).fits == 5
    assert run(started(operation, reason="agreed")) is OperationState.DONE
    assert outcomes(operation) == ["DONE"] * 5
    assert read == [2, 2, 1, 2, 2, 1]
    MessageError.objects.update(version=1, edited_payload=None)
    monkeypatch.setattr(store, "CONTENT_BYTES", size - 1)
    edit(plan("edit"), SITE)
    assert read[6:] == [1] * 5, "one that is larger is read alone"


def test_a_runner_that_cannot_go_on_pauses_and_says_why():
    some_held(2)
    operation = started(edit(plan("edit"), SITE), reason="agreed")
    Operation.objects.update(recipe="spoilt")
    assert run(operation) is OperationState.PAUSED
    assert operation.why_paused.startswith("Unreadable: ")
    assert MessageError.objects.filter(version=1).count() == 2


@pytest.mark.parametrize(("role", "sees"), [("Operators", False), ("Editors", True)])
def test_what_is_written_into_payloads_is_shown_to_those_who_may_see_them(role, sees):
    some_held(1)
    operation = edit(plan("edit"), '[{"op":"replace","path":"/priority","value":"hush-hush"}]')
    client = Client()
    client.force_login(a_person(role))
    page = reverse("operation", args=[operation.pk])
    assert ("hush-hush" in client.get(page).text) is sees
    started(operation, reason="agreed")
    assert ("hush-hush" in client.get(page).text) is sees
