"""The ownership of a run, asked of its row: a driver that lost it writes nothing that counts.

Each driver that takes a run raises its epoch. What a driver writes names the epoch that it has.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from psycopg.types.json import Jsonb

from spark_jobs.contract import Arguments
from spark_jobs.errors import balance, gone, lost
from spark_jobs.staging import Session, Stage

Outcome = tuple[Mapping[str, int], Mapping[str, Any]]
"""The counts of a report (read, sent, rejected, skipped), and its facts."""
_READ: Final = """
SELECT epoch, actor, reason, applied, counts, facts FROM integration_bulkrun WHERE id = %s
"""
# The run's row is locked first: of two that apply one run the second finds it done.
_CLAIM: Final = """
SELECT epoch, applied, counts, facts, cancel_asked_at IS NOT NULL FROM integration_bulkrun
WHERE id = %s FOR UPDATE
"""
# Held until the commit: another driver takes the run before it, or after it.
_FENCE: Final = """
SELECT 1 FROM integration_bulkrun WHERE id = %s AND epoch = %s AND NOT applied FOR SHARE
"""
_STILL: Final = "SELECT 1 FROM integration_bulkrun WHERE id = %s AND epoch = %s"
_NOTE: Final = """
UPDATE integration_bulkrun SET facts = facts || %s WHERE id = %s AND epoch = %s AND NOT applied
"""
_APPLY: Final = """
UPDATE integration_bulkrun SET applied = true, counts = %s, facts = %s
WHERE id = %s AND epoch = %s AND NOT applied
"""


class Owned(NamedTuple):
    """A run as its row had it when this driver began, and the epoch that the driver has."""

    run: str
    epoch: int
    actor: str
    reason: str
    applied: bool
    counts: Mapping[str, int]
    facts: Mapping[str, Any]


class Claim(NamedTuple):
    """The standing of a run: whether it was done, what it came to, and whether it is to stop."""

    applied: bool
    counts: Mapping[str, int]
    facts: Mapping[str, Any]
    is_cancelled: bool


def own(session: Session, arguments: Arguments) -> Owned:
    """The run as it is ours. Raises JobError UNKNOWN_RUN, RUN_TAKEN.

    Under spark-submit nobody says under which epoch it is: the one that is there is ours.
    """
    row = session.execute(_READ, [arguments.run]).fetchone()
    if row is None:
        raise gone("UNKNOWN_RUN", f"run {arguments.run}")
    owned = Owned(arguments.run, *row)
    if arguments.epoch not in (None, owned.epoch):
        raise lost()
    return owned


@contextmanager
def claimed(session: Session, owned: Owned) -> Iterator[Claim]:
    """A transaction in which nobody takes the run from this driver; whoever wants it waits.

    Short, because its lease is not renewed meanwhile. Raises JobError RUN_TAKEN, UNKNOWN_RUN.
    """
    with session.transaction():
        row = session.execute(_CLAIM, [owned.run]).fetchone()
        if row is None:
            raise gone("UNKNOWN_RUN", f"run {owned.run}")
        epoch, *claim = row
        if epoch != owned.epoch:
            raise lost()
        yield Claim(*claim)


def fence(session: Session, owned: Owned) -> None:
    """Say in a transaction, as the last thing, that it counts only if the run is still ours.

    Raises JobError RUN_TAKEN.
    """
    if session.execute(_FENCE, [owned.run, owned.epoch]).fetchone() is None:
        raise lost()


def stay_ours(session: Session, owned: Owned) -> None:
    """Raise JobError RUN_TAKEN where another driver has the run by now."""
    if session.execute(_STILL, [owned.run, owned.epoch]).fetchone() is None:
        raise lost()


def note(session: Session, owned: Owned, facts: Mapping[str, Any]) -> None:
    """Keep facts of a run under way for the driver that has it next; those at its end replace them.

    Raises JobError RUN_TAKEN.
    """
    if session.execute(_NOTE, [Jsonb(dict(facts)), owned.run, owned.epoch]).rowcount != 1:
        raise lost()


def apply(session: Session, owned: Owned, outcome: Outcome) -> None:
    """Write down in a transaction that all of the run is done, and what it came to.

    Raises JobError UNBALANCED, RUN_TAKEN.
    """
    counts, facts = outcome
    balance(counts)
    values = [Jsonb(dict(counts)), Jsonb(dict(facts)), owned.run, owned.epoch]
    if session.execute(_APPLY, values).rowcount != 1:
        raise lost()


def settle(
    session: Session, owned: Owned, stage: Stage, act: Callable[[Claim], Outcome]
) -> Outcome:
    """Do what is left, say that all is done and drop the stage, in one commit; or find it done.

    Raises JobError UNKNOWN_RUN, RUN_TAKEN, UNBALANCED, and what the act raises.
    """
    with claimed(session, owned) as claim:
        if claim.applied:
            outcome: Outcome = claim.counts, claim.facts
        else:
            outcome = act(claim)
            apply(session, owned, outcome)
        stage.drop(session)
    return outcome


def discard(session: Session, owned: Owned, stage: Stage) -> None:
    """Drop what a run has staged that stops, unless another driver goes on with it by now.

    Raises JobError RUN_TAKEN.
    """
    with session.transaction():
        # In the order of the tasks that are still to be ended: tables first.
        stage.drop(session)
        fence(session, owned)
