"""One list of states: the enum, the database's constraint, the drawing for people."""

import re
from enum import StrEnum

import pytest
from django.db import models

from integration.models import (
    BulkRun,
    MessageError,
    Operation,
    OutboxRow,
    QueuePartition,
    XaBranch,
)
from integration.policy.operations import OPERATION_MOVES
from integration.policy.states import (
    BRANCH_MOVES,
    BULK_MOVES,
    TRANSITIONS,
    BranchState,
    BulkState,
    ErrorState,
    OperationState,
    OutboxState,
    PartitionState,
)
from tests.architecture.sources import text

pytestmark = pytest.mark.fast

PAGE = "docs/states.md"
ARROW = re.compile(r"^\s*(\w+)\s*-->\s*(\w+)", re.MULTILINE)


def drawn(title: str) -> set[tuple[str, str]]:
    """The moves of the state diagram below this heading of docs/states.md."""
    page = text(PAGE)
    section = re.search(rf"^#+ {title}\n(.*?)(?=^#+ |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None, f"{PAGE} has no heading {title!r}"
    block = re.search(r"```mermaid\nstateDiagram.*?\n(.*?)```", section[1], re.DOTALL)
    assert block is not None, f"no state diagram under {title!r}"
    return set(ARROW.findall(block[1]))


def permitted(model: type[models.Model], name: str) -> set[str]:
    """The values that the CHECK constraint of this name lets in."""
    [constraint] = [c for c in model._meta.constraints if c.name == name]
    assert isinstance(constraint, models.CheckConstraint)
    condition = constraint.condition
    assert isinstance(condition, models.Q)
    [(lookup, values)] = condition.children
    assert lookup == "state__in"
    return set(values)


@pytest.mark.parametrize(
    ("states", "model", "constraint"),
    [
        (ErrorState, MessageError, "error_state_known"),
        (PartitionState, QueuePartition, "partition_state_known"),
        (OutboxState, OutboxRow, "outbox_state_known"),
        (OperationState, Operation, "operation_state_known"),
        (BulkState, BulkRun, "bulk_run_state_known"),
        (BranchState, XaBranch, "xa_branch_state_known"),
    ],
)
def test_the_database_knows_the_same_states(
    states: type[StrEnum], model: type[models.Model], constraint: str
) -> None:
    assert permitted(model, constraint) == {state.value for state in states}
    choices = model._meta.get_field("state").choices
    assert {value for value, _ in choices or []} == {state.value for state in states}


def test_a_failed_message_moves_as_it_is_drawn():
    moves = {(old.value, new.value) for old, news in TRANSITIONS.items() for new in news}
    assert drawn("A failed message") == moves


def test_a_bulk_operation_moves_as_it_is_drawn():
    moves = {(old.value, new.value) for old, news in OPERATION_MOVES.items() for new in news}
    assert drawn("A bulk operation") == moves


def test_a_branch_moves_as_it_is_drawn():
    moves = {(old.value, new.value) for old, news in BRANCH_MOVES.items() for new in news}
    assert drawn("A branch") == moves


def test_a_bulk_run_moves_as_it_is_drawn():
    moves = {(old.value, new.value) for old, news in BULK_MOVES.items() for new in news}
    assert drawn("A bulk run") == moves


def test_the_drawing_of_a_partition_names_every_state():
    names = {name for move in drawn("A partition") for name in move}
    assert names == {state.value for state in PartitionState}
