"""What people see of a system's tokens: everything but what they were."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import BooleanField, ExpressionWrapper, Q

from integration.clock import database_now
from integration.models import ApiToken, ExternalSystem, PublishChannel, Queue
from integration.models.http_api import Doing
from integration.selectors.scope import Scope
from integration.selectors.setup.channels import is_wholly_known
from integration.selectors.setup.services import services

SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One token in words. `state`: valid, expires soon, expired or revoked."""

    number: int
    name: str
    prefix: str
    state: str
    may: tuple[str, ...]
    services: tuple[str, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    @property
    def is_valid(self) -> bool:
        return self.state in {"valid", "expires soon"}


def tokens_of(system: ExternalSystem) -> list[TokenRow]:
    """All that were ever made and not cleaned away, valid ones first."""
    over = ExpressionWrapper(Q(expires_at__lte=database_now()), output_field=BooleanField())
    soon = ExpressionWrapper(Q(expires_at__lte=database_now() + SOON), output_field=BooleanField())
    rows = ApiToken.objects.filter(system=system).annotate(is_over=over, is_soon=soon)
    found = [_row(row) for row in rows.order_by("name")]
    return sorted(found, key=lambda row: (not row.is_valid, row.name))


def token_of(system: ExternalSystem, number: int) -> ApiToken | None:
    """One token, if it is this system's."""
    return ApiToken.objects.filter(system=system, pk=number).select_related("system").first()


def services_at(system: ExternalSystem) -> list[str]:
    """The services that have a queue of this system as their own, for examples."""
    queues = Queue.objects.filter(
        system=system, direction=Queue.Direction.INBOUND, is_error_queue=False
    )
    named = queues.filter(default_service__isnull=False).order_by("name")
    return list(named.values_list("default_service__interface", flat=True))


def inbound_queues(system: ExternalSystem) -> int:
    """How many queues could take posts."""
    return Queue.objects.filter(
        system=system, direction=Queue.Direction.INBOUND, is_error_queue=False
    ).count()


def names_to_limit_to(scope: Scope) -> list[str]:
    """Every service and channel of this scope that a token can be limited to.

    A name that is also that of a channel which reaches further is none: a token knows names only.
    """
    known = set(services(scope).values_list("interface", flat=True))
    for channel in PublishChannel.objects.all():
        if is_wholly_known(channel, scope):
            known.add(channel.name)
        else:
            known.discard(channel.name)
    return sorted(known)


def _row(row: ApiToken) -> TokenRow:
    state = "valid"
    if row.revoked_at is not None:
        state = "revoked"
    elif getattr(row, "is_over", False):
        state = "expired"
    elif getattr(row, "is_soon", False):
        state = "expires soon"
    return TokenRow(
        row.pk,
        row.name,
        row.prefix,
        state,
        tuple(doing.value[1] for doing in Doing if getattr(row, doing.value[0])),
        tuple(row.services),
        row.created_at,
        row.created_by,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
    )
