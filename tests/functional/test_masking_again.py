"""A run that is let go on is judged by the masking rules of that moment, as a new one would be."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from console.layout.access import Right
from crontasks.bulk.asking import Asker, ask_by_schedule, ask_in_console
from crontasks.bulk.catalogue import CATALOGUE
from integration.models import BulkRun, EnterpriseService, ObjectStructure, Queue
from tests.functional.test_masking import a_rule
from tests.functional.test_masking_planted import person_without, somebody
from tests.support.http_api import problem
from tests.support.operator_api import a_program
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path


@pytest.fixture
def order() -> ObjectStructure:
    return ObjectStructure.objects.create(name="order", key_paths=["$.order"])


@pytest.fixture
def source(order: ObjectStructure) -> Queue:
    service = EnterpriseService.objects.create(interface="order", structure=order)
    return a_queue_row("continuous", name="source", default_service=service)


def failed(job: str, wanted: dict[str, Any]) -> BulkRun:
    run = ask_in_console(CATALOGUE[job], wanted, Asker(name="otto"), number=uuid4())
    return ended(run)


def ended(run: BulkRun) -> BulkRun:
    BulkRun.objects.filter(pk=run.pk).update(state="FAILED")
    return run


def after_again(run: BulkRun, *but: Right) -> str:
    """The state of the run once somebody with every right but these has run it again."""
    somebody(*but).post(reverse("bulk-again", args=[run.pk]))
    return BulkRun.objects.get(pk=run.pk).state


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        ("replay", {"queue": "source", "into": "structure", "target": "asset"}),
        ("replay", {"queue": "source", "into": "topic", "target": "nobodys"}),
        ("export", {"what": "messages", "into_queue": "other", "queue": "source"}),
        ("archive", {"kind": "failures", "older_than_days": 30}),
        ("archive", {"kind": "failures", "older_than_days": 30, "masked": True}),
    ],
)
def test_what_would_lose_a_rule_by_now_goes_on_by_who_may_reveal(
    order: ObjectStructure, job: str, wanted: dict[str, Any]
) -> None:
    ObjectStructure.objects.create(name="asset", key_paths=["$.asset"])
    a_queue_row(name="other")
    run = failed(job, wanted)
    a_rule(structure=order)
    program = a_program(person=person_without(Right.REVEAL))
    path = f"/bulk/runs/{run.pk}/repetitions"
    problem(program.post(path, {"reason": "once more"}), 422, "MASKED_SOURCE")
    assert after_again(run, Right.REVEAL) == "FAILED"
    assert after_again(run) == "ASKED"


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        ("replay", {"queue": "source", "into": "queue"}),
        ("replay", {"queue": "source", "into": "structure", "target": "order"}),
        ("archive", {"kind": "runs", "older_than_days": 30}),
        ("archive", {"kind": "runs", "older_than_days": 30, "masked": True}),
    ],
)
def test_what_loses_none_goes_on(source: Queue, job: str, wanted: dict[str, Any]) -> None:
    run = failed(job, wanted)
    a_rule(queue=source)
    assert after_again(run, Right.REVEAL) == "ASKED"


def test_a_masked_archive_goes_on_by_the_rules_it_has() -> None:
    a_rule()
    run = failed("archive", {"kind": "failures", "older_than_days": 30, "masked": True})
    assert after_again(run, Right.REVEAL) == "ASKED"


@pytest.mark.parametrize(("said", "after"), [({"masked": False}, "ASKED"), ({}, "FAILED")])
def test_an_archive_by_schedule_goes_on_with_true_values_that_it_agrees_to(
    said: dict[str, bool], after: str
) -> None:
    wanted = {"kind": "failures", "older_than_days": 30, **said}
    run = ended(ask_by_schedule("archive", wanted, actor="nightly", instance=7))
    a_rule()
    assert after_again(run, Right.REVEAL) == after
