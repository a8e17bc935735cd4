"""A person's decisions about what the relay could not send, or does not know to have sent."""

import logging
from collections.abc import Collection

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from integration.delivery.policy.states import OutboxState
from integration.errors import IntegrationError
from integration.models import OutboxRow, RelayLease
from integration.store.sessions import alias

log = logging.getLogger(__name__)


class NotInDoubtError(IntegrationError):
    """Somebody has decided already."""

    code = "RELAY_NOT_IN_DOUBT"

    def __init__(self) -> None:
        super().__init__(
            "This relay is not in doubt any more.", next_step="Look again; nothing was changed."
        )


def resolve_in_doubt(lease: RelayLease, *, sent: bool, actor: str) -> int:
    """Say that the stamped batch is in Kafka (`sent`) or is to be sent; return its row count.

    The epoch is raised, so that a relay that waits for this word begins anew. Raises
    NotInDoubtError.
    """
    with transaction.atomic(using=alias()):
        leases = RelayLease.objects.using(alias())
        locked = leases.select_for_update().get(pk=lease.pk)
        if locked.in_doubt_since is None:
            raise NotInDoubtError
        rows = OutboxRow.objects.using(alias()).filter(
            provider_id=locked.provider_id, shard=locked.shard, state=OutboxState.STAMPED
        )
        if sent:
            count = rows.update(state=OutboxState.PUBLISHED, published_at=Now())
        else:
            count = rows.update(state=OutboxState.PENDING, batch=None)
        leases.filter(pk=locked.pk).update(
            in_doubt_since=None, in_doubt_text="", epoch=F("epoch") + 1
        )
    log.warning("%s said that %s rows in doubt were %s", actor, count, "sent" if sent else "not")
    return count


def send_again(rows: Collection[int], *, actor: str) -> int:
    """Give DEAD rows back to the relay, which sends them in their old place; return how many."""
    count = _dead(rows, OutboxState.PENDING, dead_code="", dead_text="", batch=None)
    log.warning("%s gave %s dead outgoing rows back to the relay", actor, count)
    return count


def give_up(rows: Collection[int], *, actor: str) -> int:
    """Cancel DEAD rows for good: what they hold back on a strict queue goes on; how many."""
    count = _dead(rows, OutboxState.CANCELLED)
    log.warning("%s gave up %s dead outgoing rows", actor, count)
    return count


def _dead(rows: Collection[int], state: OutboxState, **values: object) -> int:
    found = OutboxRow.objects.using(alias()).filter(pk__in=rows, state=OutboxState.DEAD)
    return found.update(state=state, **values)
