"""A person's word on a two-phase commit that is in doubt."""

import logging
from typing import ClassVar

from integration.actions.errors import ReasonMissingError, RowBusyError
from integration.delivery.two_phase import decision_of
from integration.errors import IntegrationError
from integration.models import OutboxChange, QueuePartition
from integration.policy.branches import Branch, Decision
from integration.runs.branches import publisher_of
from integration.store import branches, locks, prepared, second_database
from integration.store.sessions import Session, database_now, raw_connection

log = logging.getLogger(__name__)

ACTIONS = {Decision.COMMIT: "commit branch", Decision.ROLLBACK: "roll back branch"}


class BranchNotInDoubtError(IntegrationError):
    """The branch was settled meanwhile, by a run or a person."""

    code: ClassVar[str] = "BRANCH_NOT_IN_DOUBT"

    def __init__(self) -> None:
        super().__init__(
            "This commit is not in doubt (any more): Kafka knows it, or it was settled.",
            next_step="Nothing was changed; it is settled by itself within 15 seconds.",
        )


def decide(name: str, *, commit: bool, actor: str, reason: str) -> None:
    """Commit the branch of that name, or roll it back, where Kafka does not know it any more.

    The partition is locked meanwhile, and whoever prepared the branch is shut out of Kafka. Raises
    ReasonMissingError, BranchNotInDoubtError, RowBusyError while a run is at work on it,
    SecondDatabaseDownError, and BrokerUnreachableError while Kafka may yet tell.
    """
    decision = Decision.COMMIT if commit else Decision.ROLLBACK
    if not reason.strip():
        raise ReasonMissingError(action="decide about a commit in doubt")
    branch = _left(name)
    row = None if branch is None else _partition_of(branch)
    if branch is None or row is None:
        raise BranchNotInDoubtError
    with raw_connection("sluice-branches") as session:
        session.execute(f"SELECT {locks.SESSION_HAS_NO_LEASE}")
        if not locks.take(session, [locks.LockClass.PARTITION, row.pk]):
            raise RowBusyError
        # A run or the lag monitor may have settled it up to now; nobody does any more.
        if _left(name) is None:
            raise BranchNotInDoubtError
        _finish(session, branch, decision)
    OutboxChange.objects.create(
        provider_id=row.queue.provider_id,
        batch=branch.batch,
        topic=row.queue.topic,
        at=database_now(),
        actor=actor,
        action=ACTIONS[decision],
        from_state="PREPARED",
        to_state=decision.upper(),
        why_before=f"{row.queue.name}[{branch.partition}], up to offset {branch.next_offset - 1}",
        reason=reason.strip(),
    )
    log.warning("%s decided about the branch %s: %s", actor, branch, decision)


def _left(name: str) -> Branch | None:
    return next((one.branch for one in branches.left() if str(one.branch) == name), None)


def _partition_of(branch: Branch) -> QueuePartition | None:
    places = QueuePartition.objects.select_related("queue")
    return places.filter(queue=branch.queue, partition=branch.partition).first()


def _finish(session: Session, branch: Branch, decision: Decision) -> None:
    told = decision_of(branch, publisher_of(branch.queue, branch.partition))
    if second_database.settle(branch, told) is not Decision.UNKNOWN:
        raise BranchNotInDoubtError
    second_database.force(branch, decision)
    prepared.finish_left(session, str(branch), decision)
