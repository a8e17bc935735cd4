"""The steps of a repair at which its driver is killed: the next one edits each message once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from django.db import connection

from crontasks.bulk.asking import arguments_of, conninfo
from integration.models import BulkRun, ErrorChange, MessageError, Operation, OperationItem, Queue
from spark_jobs.fencing import own
from spark_jobs.repairs.applying import EDITS
from spark_jobs.repairs.freezing import frozen
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.repairs.selection import ROW_BYTES
from tests.support.bulk import an_asset_structure, storing
from tests.support.exports import a_plain_queue
from tests.support.repairs import CODE, a_repair
from tests.support.run_driver import (
    LOCK_ROW,
    DriverOfMany,
    Killed,
    Step,
    a_session,
    applied_and_not_ended,
    end_who_waits,
    eventually,
    hold,
    rows_in,
    waits,
)

MESSAGES: Final = 90
PARTS: Final = 3
# Every tenth has no number, so that its structure does not take it.
BAD: Final = MESSAGES // 10
FILL: Final = """
INSERT INTO integration_messageerror (
  id, queue_id, topic_uuid, partition, "offset", message_id, interface, sender, headers, payload,
  edited_by, state, failure_class, code, text, detail, fingerprint, attempts, retry_no, spent,
  crashes, carrier, arrival_batch, arrival_index, late, apply_as_newest, version,
  first_failed_at, last_failed_at, ended)
SELECT gen_random_uuid(), %s, 'first-topic', 0, n, 'm-' || n, '', '', '[]',
  convert_to(CASE WHEN n %% 10 = 0 THEN '{"n":' || n ELSE '{"assetnum":"A-' || n || '"' END
    || ',"note":"' || repeat('x', 200) || '"}', 'UTF8'),
  '', 'HOLD', 'permanent', %s, '', '', 'f', 1, 0, 0, 0, 'row', 1, n, false, false, 1, now(), now(),
  '' FROM generate_series(1, %s) n
"""


@contextmanager
def when_chosen_and_not_told(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """What is chosen is committed, and the run's row does not have it."""
    with a_session() as choosing, a_session() as telling:
        hold(choosing, run, -1)
        driver.drive(run)
        eventually(lambda: waits(choosing), driver)
        telling.execute("SELECT 1 FROM integration_bulkrun WHERE id = %s FOR SHARE", [run.pk])
        choosing.rollback()
        eventually(lambda: rows_in(run, "items") == MESSAGES, driver)
        yield
        end_who_waits(telling)
        assert _now(run).plan == {}


@contextmanager
def when_some_is_judged(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    in_parts(run)
    with a_session() as judging:
        hold(judging, run, 1)
        driver.drive(run)
        eventually(lambda: rows_in(run, "judged") == PARTS - 1, driver)
        yield
        assert (rows_in(run, "judged"), _edited(run)) == (PARTS - 1, 0)


@contextmanager
def before_the_first_edit(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    in_parts(run)
    with a_session() as editing:
        for part in range(PARTS):
            hold(editing, run, EDITS + part)
        driver.drive(run)
        eventually(lambda: waits(editing), driver)
        yield
        assert (rows_in(run, "judged"), _edited(run)) == (PARTS, 0)


@contextmanager
def in_the_commit_of_a_part(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """Written, and not committed: whose run it is cannot be told at the moment."""
    in_parts(run)
    with a_session() as editing, a_session() as fencing:
        for part in range(PARTS):
            hold(editing, run, EDITS + part)
        driver.drive(run)
        eventually(lambda: waits(editing), driver)
        fencing.execute(LOCK_ROW, [run.pk])
        editing.rollback()
        eventually(lambda: waits(fencing, "FOR SHARE"), driver)
        yield
        assert _edited(run) == 0


@contextmanager
def when_some_is_edited(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    in_parts(run)
    with a_session() as editing:
        hold(editing, run, EDITS + 1)
        driver.drive(run)
        eventually(lambda: rows_in(run, "applied") == PARTS - 1, driver)
        yield
        assert 0 < _edited(run) < MESSAGES - BAD
        assert not Operation.objects.filter(pk=run.pk).exists()


@contextmanager
def in_the_last_commit(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """The operation is written, and not committed."""
    in_parts(run)
    with a_session() as operating:
        _make_an_operation(operating, run)
        driver.drive(run)
        eventually(lambda: waits(operating, "INSERT INTO integration_operation (id"), driver)
        yield
        assert (_edited(run), _now(run).applied) == (MESSAGES - BAD, False)


@contextmanager
def when_the_operation_is_made(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """It is committed, and how the run ended cannot be written."""
    in_parts(run)
    with a_session() as operating:
        _make_an_operation(operating, run)
        driver.drive(run)
        eventually(lambda: waits(operating, "INSERT INTO integration_operation (id"), driver)
        with applied_and_not_ended(run, driver, operating):
            yield


STEPS: Final[tuple[Step, ...]] = (
    when_chosen_and_not_told,
    when_some_is_judged,
    before_the_first_edit,
    in_the_commit_of_a_part,
    when_some_is_edited,
    in_the_last_commit,
    when_the_operation_is_made,
)


def in_parts(run: BulkRun) -> None:
    """Choose its messages here, in parts that are smaller than a driver makes them."""
    part_bytes = (ROW_BYTES + 500) * MESSAGES // PARTS
    with psycopg.connect(conninfo()) as session:
        owned = own(session, arguments_of(run))
        plan = frozen(session, owned, RepairParameters.of(run.parameters), part_bytes)
    BulkRun.objects.filter(pk=run.pk).update(plan=plan.as_json())
    assert len(plan.parts) == PARTS


def _make_an_operation(session: psycopg.Connection[Any], run: BulkRun) -> None:
    """What the driver makes, so that it waits until this is undone."""
    session.execute(
        "INSERT INTO integration_operation (id, verb, title, query, recipe, release_after_edit, "
        "late, actor, reason, state, why_paused, first_only, total, handled, done, is_capped, "
        "queues, created_at, version, owner, epoch) VALUES (%s, 'release', '', '', '', false, "
        "false, '', '', 'PLANNED', '', false, 0, 0, 0, false, '{}', now(), 1, '', 0)",
        [run.pk],
    )


def _now(run: BulkRun) -> BulkRun:
    return BulkRun.objects.get(pk=run.pk)


def _messages(run: BulkRun) -> Any:
    return MessageError.objects.filter(queue__name=run.job_request["queue"])


def _edited(run: BulkRun) -> int:
    return int(_messages(run).filter(version=2).count())


def killed_repairs() -> Killed:
    """A run for each step, over messages of a queue of its own."""
    queues = {step: a_plain_queue(step.__name__) for step in STEPS}
    first = storing(queues[STEPS[0]], an_asset_structure())
    ours = [queue.pk for queue in queues.values()]
    Queue.objects.filter(pk__in=ours).update(default_service=first.default_service)
    with connection.cursor() as cursor:
        cursor.executemany(FILL, [[queue, CODE, MESSAGES] for queue in ours])
    return Killed({step: a_repair(queue, code=CODE) for step, queue in queues.items()}, _holds)


def _holds(step: Step, run: BulkRun) -> None:
    good = MESSAGES - BAD
    parts = 1 if step is when_chosen_and_not_told else PARTS
    assert len(run.plan["parts"]) == parts
    assert (run.state, run.problem, run.deaths) == ("DONE", None, 1)
    assert run.counts == {"read": MESSAGES, "sent": good, "rejected": BAD, "skipped": 0}
    assert _messages(run).filter(version=2, state="HOLD").count() == good
    assert _messages(run).filter(version=1, edited_payload=None).count() == BAD
    edits = ErrorChange.objects.filter(action="edit", error__queue__name=run.job_request["queue"])
    assert edits.count() == good
    assert edits.values("error").distinct().count() == good
    operation = Operation.objects.get(pk=run.pk)
    assert (operation.total, operation.handled) == (MESSAGES, BAD)
    assert operation.items.values("error").distinct().count() == MESSAGES
    assert operation.items.filter(outcome="", version=2).count() == good
    assert all(rows_in(run, name) == 0 for name in ("items", "outcomes", "results"))


def all_have_one_operation(killed: Killed) -> None:
    """When all of them were taken over there is one operation for each, with each message once."""
    assert Operation.objects.count() == len(killed.runs)
    assert OperationItem.objects.count() == len(killed.runs) * MESSAGES
