"""Repairs for tests: held failures to be repaired, and runs over them."""

import json
from typing import Any, Final

from django.db import connection

from crontasks.bulk.asking import ask
from crontasks.bulk.driving import drive
from integration.models import BulkRun, MessageError, Operation, Queue, StoredObject
from integration.policy.states import OperationState
from tests.support.flows import drain
from tests.support.operations import run as carried_out
from tests.support.rows import a_held

SITE: Final = '[{"op":"add","path":"/siteid","value":"BEDFORD"}]'
CODE: Final = "MISSING_VALUE"


def an_asset(number: int, **more: Any) -> bytes:
    return json.dumps({"assetnum": f"A-{number}", **more}).encode()


def some_assets(queue: Queue, count: int, *, first: int = 0, **fields: Any) -> list[MessageError]:
    """Held assets without a site: their structure does not take them."""
    return [
        a_held(
            queue,
            number,
            arrival_batch=1,
            arrival_index=number,
            **{"interface": "", "payload": an_asset(number), "headers": [], "code": CODE, **fields},
        )
        for number in range(first, first + count)
    ]


def a_repair(queue: Queue, /, recipe: str = SITE, **more: Any) -> BulkRun:
    job_request = {"recipe": recipe, "queue": queue.name, **more}
    return ask("repair", job_request, actor="otto", reason="agreed with the partner")


def driven(run: BulkRun) -> BulkRun:
    ended = drive(run.pk, owner="a test")
    assert ended is not None
    return ended


def sites() -> dict[str, str]:
    """The site of each document that is stored, by its number."""
    rows = StoredObject.objects.values_list("document", flat=True)
    return {row["assetnum"]: row["siteid"] for row in rows}


def tables(run: BulkRun) -> list[str]:
    """The tables of a run that are still there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE starts_with(tablename, %s)",
            [f"bulk_{run.pk.hex}_"],
        )
        return [name for (name,) in cursor.fetchall()]


def released(run: BulkRun, queue: Queue) -> Operation:
    """The run's operation carried out to its end, and its queue with it."""
    operation = Operation.objects.get(pk=run.pk)
    assert carried_out(operation) is OperationState.DONE
    drain(queue)
    return operation
