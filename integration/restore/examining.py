"""Looking what a restore means: the traces become findings, or nothing is left to decide."""

import logging
from dataclasses import asdict
from typing import Any, ClassVar, Final

from django.db.models import F

from integration.actions.transaction import short_transaction
from integration.clock import database_now
from integration.errors import IntegrationError
from integration.kafka.errors import BrokerUnreachableError, ProviderUnusableError
from integration.models import Provider, RelayLease, Restore, RestoreFinding
from integration.restore import traces
from integration.restore.traces import Traces
from integration.store import deployments
from integration.store.sessions import django_connection

log = logging.getLogger(__name__)

BY_ITSELF: Final = "sluice"
NOTHING: Final = "Nothing is to be decided: Kafka has nothing that this database does not know."


class NotOursError(IntegrationError):
    """The database belongs to another installation; that is decided first."""

    code: ClassVar[str] = "COPIED_DATABASE"

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"This database belongs to {owner}, so nothing is read, sent or accepted.",
            next_step="If this copy is meant to act, adopt it first: `manage.py adopt_database`.",
        )


def current() -> Restore | None:
    """The restore that is not closed yet, if there is one."""
    return Restore.objects.filter(closed_at__isnull=True).first()


def declare(text: str, actor: str) -> Restore:
    """A person says that the database was restored, where nothing else tells it.

    Everything is held until it was looked at. Raises NotOursError.
    """
    with django_connection().cursor() as cursor:
        standing = deployments.standing(cursor)
        if standing.owner is not None:
            raise NotOursError(standing.owner)
        deployments.may_act(cursor)  # notes what can be told without a person
        deployments.notice(cursor, Restore.NoticedBy.PERSON, text)
    log.warning("%s said that the database was restored", actor)
    return Restore.objects.get(closed_at__isnull=True)


def look(restore: Restore, *, with_silent: bool = True) -> Restore:
    """Ask Kafka what the lost database did, and write down what is to be decided.

    Decisions that were made stay. Where a cluster does not answer, its queues and relay are held
    with a finding that says so; without `with_silent` BrokerUnreachableError and
    ProviderUnusableError are raised instead, and nothing changes. Raises RowBusyError.
    """
    found = Traces()
    for provider in Provider.objects.order_by("name"):
        try:
            traces.of_provider(provider, found)
        except (BrokerUnreachableError, ProviderUnusableError) as e:
            if not with_silent:
                raise
            found.findings += traces.of_silent(provider, str(e))
    is_certain = restore.noticed_by != Restore.NoticedBy.TIMELINE
    if is_certain or found.findings or found.watermarks:
        traces.waiting_deliveries(found)
        traces.unsettled_calls(found)
    traces.in_doubt(found)
    return _write(restore.pk, found)


def _write(restore_id: int, found: Traces) -> Restore:
    with short_transaction():
        restore = Restore.objects.select_for_update().get(pk=restore_id)
        if restore.closed_at is not None:
            return restore
        restore.findings.filter(decided_at__isnull=True).delete()
        decided = {_subject(values) for values in restore.findings.values(*SUBJECT)}
        fresh = [asdict(trace) for trace in found.findings]
        RestoreFinding.objects.bulk_create(
            RestoreFinding(restore=restore, **values)
            for values in fresh
            if _subject(values) not in decided
        )
        for lease, watermark in found.watermarks.items():
            RelayLease.objects.filter(pk=lease).update(watermark=watermark, epoch=F("epoch") + 1)
        restore.remarks = found.remarks
        Restore.objects.filter(pk=restore_id).update(
            examined_at=database_now(), remarks=found.remarks
        )
        close_if_decided(restore_id, BY_ITSELF)
    restore.refresh_from_db()
    return restore


SUBJECT: Final = ("kind", "queue", "partition", "provider", "shard")


def _subject(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(values[name] for name in SUBJECT)


def close_if_decided(restore_id: int, actor: str) -> bool:
    """Let everything act again once no finding is open; called in the decision's transaction."""
    if RestoreFinding.objects.filter(restore=restore_id, decided_at__isnull=True).exists():
        return False
    Restore.objects.filter(pk=restore_id).update(closed_at=database_now(), closed_by=actor)
    log.warning("The restore is settled; queues and relays go on")
    return True


def look_if_noticed() -> None:
    """What the leading worker does: look at once, so that nothing waits where nothing was lost.

    Where a cluster does not answer everything stays held, and it is tried again. Raises
    RowBusyError.
    """
    restore = current()
    if restore is None or restore.examined_at is not None:
        return
    with django_connection().cursor() as cursor:
        if deployments.standing(cursor).owner is not None:
            return
    try:
        look(restore, with_silent=False)
    except (BrokerUnreachableError, ProviderUnusableError) as e:
        log.warning("What the restore means cannot be told yet: %s", e)


def noticed() -> Restore | None:
    """The open restore, also one that only this look at the database tells. Raises NotOursError."""
    with django_connection().cursor() as cursor:
        standing = deployments.standing(cursor)
        if standing.owner is not None:
            raise NotOursError(standing.owner)
        deployments.may_act(cursor)
    return current()
