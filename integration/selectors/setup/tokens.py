"""The tokens of a system as people see them: everything but what they were."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db.models import Case, CharField, QuerySet, Value, When

from integration.models import ApiToken, ExternalSystem, PublishChannel, Queue
from integration.models.http_api import Doing
from integration.selectors.scope import Scope
from integration.selectors.setup.channels import is_wholly_known
from integration.selectors.setup.takers import services
from integration.store.sessions import database_now

SOON: Final = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One token and its `state`: valid, expires soon, expired or revoked."""

    token: ApiToken
    state: str

    @property
    def is_valid(self) -> bool:
        return self.state in {"valid", "expires soon"}

    @property
    def may(self) -> list[str]:
        """The permissions, in words."""
        return [words for name, words in (d.value for d in Doing) if getattr(self.token, name)]


def tokens_of(system: ExternalSystem) -> list[TokenRow]:
    """All that were ever made and not cleaned away, valid ones first."""
    state = Case(
        When(revoked_at__isnull=False, then=Value("revoked")),
        When(expires_at__lte=database_now(), then=Value("expired")),
        When(expires_at__lte=database_now() + SOON, then=Value("expires soon")),
        default=Value("valid"),
        output_field=CharField(),
    )
    rows = ApiToken.objects.filter(system=system).annotate(state=state)
    return sorted(
        [TokenRow(token, token.state) for token in rows],
        key=lambda row: (not row.is_valid, row.token.name),
    )


def token_of(system: ExternalSystem, number: int) -> ApiToken | None:
    """One token, if it is this system's."""
    return ApiToken.objects.filter(system=system, pk=number).select_related("system").first()


def users_named(names: Iterable[str]) -> Mapping[str, Any]:
    """Return the accounts of these names; a name that nobody has is left out."""
    model = get_user_model()
    rows = model._default_manager.filter(**{f"{model.USERNAME_FIELD}__in": list(names)})
    return {row.get_username(): row for row in rows}


def services_at(system: ExternalSystem) -> list[str]:
    """The services that have a queue of this system as their own; at Kafka first, for examples.

    A queue without a default service takes posts for all others, which are not among them.
    """
    named = inbound_queues(system).filter(default_service__isnull=False)
    named = named.order_by("-provider__kind", "name")
    return list(named.values_list("default_service__interface", flat=True))


def inbound_queues(system: ExternalSystem) -> QuerySet[Queue]:
    """The queues of its messages; those at Kafka take posts."""
    inbound = Queue.Direction.INBOUND
    return Queue.objects.filter(system=system, direction=inbound, is_error_queue=False)


def takes_no_posts(system: ExternalSystem) -> list[str]:
    """The names of its queues, where all of them read from JMS brokers; otherwise none."""
    queues = list(inbound_queues(system).select_related("provider").order_by("name"))
    names = [queue.name for queue in queues if queue.provider.is_jms]
    return names if len(names) == len(queues) else []


def names_to_limit_to(scope: Scope) -> list[str]:
    """Every service and channel of this scope that a token can be limited to.

    A name that is also that of a channel which reaches further is none: a token knows names only.
    """
    names = set(services(scope).values_list("interface", flat=True))
    for channel in PublishChannel.objects.all():
        if is_wholly_known(channel, scope):
            names.add(channel.name)
        else:
            names.discard(channel.name)
    return sorted(names)
