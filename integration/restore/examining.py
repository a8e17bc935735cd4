"""The open restore: that it was noticed, what Kafka has to say about it, what is left to decide."""

import logging
from operator import attrgetter
from typing import Final, NamedTuple

from django.db.models import F

from integration.actions.transaction import short_transaction
from integration.kafka.errors import BrokerUnreachableError, ProviderUnusableError
from integration.models import RelayLease, Restore, RestoreFinding
from integration.restore.adopting import NotOursError
from integration.restore.options import Card, card
from integration.restore.traces import Traces, find
from integration.store import deployments
from integration.store.sessions import database_now, django_connection

log = logging.getLogger(__name__)

BY_ITSELF: Final = "sluice"
NOTHING: Final = "Nothing is to be decided: Kafka has nothing that this database does not know."
EARLIER_ROWS: Final = 10
# The subject of a finding: decided once, it is not asked again.
SUBJECT: Final = attrgetter("kind", "queue", "partition", "provider", "shard")


class Overview(NamedTuple):
    """`current` is the restore that is not settled yet, with what is open and what is decided."""

    current: Restore | None
    unsettled: list[Card]
    decided: list[RestoreFinding]
    earlier: list[Restore]

    @property
    def decided_count(self) -> int:
        return len(self.decided)

    @property
    def first(self) -> Card | None:
        """The decision that is next; the others follow."""
        return self.unsettled[0] if self.unsettled else None


def current() -> Restore | None:
    """The restore that is not closed yet, if there is one."""
    return Restore.objects.filter(closed_at__isnull=True).first()


def open_count() -> int | None:
    """Count the decisions that are open; None when no restore is."""
    restore = current()
    return None if restore is None else restore.findings.filter(decided_at__isnull=True).count()


def overview() -> Overview:
    """Everything about restores; three queries."""
    restore = current()
    rows = [] if restore is None else list(restore.findings.order_by("pk"))
    earlier = Restore.objects.filter(closed_at__isnull=False).prefetch_related("findings")
    return Overview(
        current=restore,
        unsettled=[card(row) for row in rows if row.decided_at is None],
        decided=[row for row in rows if row.decided_at is not None],
        earlier=list(earlier[:EARLIER_ROWS]),
    )


def declare(text: str, actor: str) -> Restore:
    """A person says that the database was restored, where nothing else tells it.

    Everything is held until it was looked at. Raises NotOursError.
    """
    noticed()
    with django_connection().cursor() as cursor:
        deployments.notice(cursor, Restore.NoticedBy.PERSON, text)
    log.warning("%s said that the database was restored", actor)
    return Restore.objects.get(closed_at__isnull=True)


def noticed() -> Restore | None:
    """The open restore, also one that only this look at the database tells. Raises NotOursError."""
    with django_connection().cursor() as cursor:
        owner = deployments.foreign_environment(cursor)
        if owner is not None:
            raise NotOursError(owner)
        deployments.may_act(cursor)  # notes what can be told without a person
    return current()


def look_if_noticed() -> None:
    """Look at once, as the leading worker, so that nothing waits where nothing was lost.

    Where a cluster does not answer, all stays held and is tried again. Raises RowBusyError.
    """
    restore = current()
    if restore is None or restore.examined_at is not None:
        return
    with django_connection().cursor() as cursor:
        if deployments.foreign_environment(cursor) is not None:
            return
    try:
        look(restore, with_silent=False)
    except (BrokerUnreachableError, ProviderUnusableError) as e:
        log.warning("What the restore means cannot be told yet: %s", e)


def look(restore: Restore, *, with_silent: bool = True) -> Restore:
    """Ask Kafka what the lost database did, and write down what is to be decided.

    Decisions that were made stay. Where a cluster does not answer, its queues and relay are held
    with a finding that says so; without `with_silent` BrokerUnreachableError and
    ProviderUnusableError are raised instead, and nothing changes. Raises RowBusyError.
    """
    is_certain = restore.noticed_by != Restore.NoticedBy.TIMELINE
    return _write(restore.pk, find(is_certain=is_certain, with_silent=with_silent))


def _write(restore_id: int, traces: Traces) -> Restore:
    with short_transaction():
        restore = Restore.objects.select_for_update().get(pk=restore_id)
        if restore.closed_at is not None:
            return restore
        restore.findings.filter(decided_at__isnull=True).delete()
        decided = {SUBJECT(finding) for finding in restore.findings.all()}
        fresh = [finding for finding in traces.findings if SUBJECT(finding) not in decided]
        for finding in fresh:
            finding.restore = restore
        RestoreFinding.objects.bulk_create(fresh)
        for lease, watermark in traces.watermarks.items():
            RelayLease.objects.filter(pk=lease).update(watermark=watermark, epoch=F("epoch") + 1)
        Restore.objects.filter(pk=restore_id).update(
            examined_at=database_now(), remarks=traces.remarks
        )
        close_if_decided(restore_id, BY_ITSELF)
    restore.refresh_from_db()
    return restore


def close_if_decided(restore_id: int, actor: str) -> bool:
    """Let everything act again once no finding is open; called in the decision's transaction."""
    if RestoreFinding.objects.filter(restore=restore_id, decided_at__isnull=True).exists():
        return False
    Restore.objects.filter(pk=restore_id).update(closed_at=database_now(), closed_by=actor)
    log.warning("The restore is settled; queues and relays continue")
    return True
