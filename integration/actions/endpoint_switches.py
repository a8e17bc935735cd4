"""Requests about an endpoint while it works: pause it, let it go on, switch it."""

from datetime import datetime
from typing import ClassVar

from django.db import transaction
from django.db.models import Q

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import ReasonMissingError
from integration.errors import IntegrationError
from integration.models import Endpoint, Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.store.sessions import database_now
from integration.store.starts import leave_request

# Codes that the engine noted because of a switch, and notes again when it looks.
_FOUND: tuple[str, ...] = ("ENDPOINT_PAUSED", "ENDPOINT_DISABLED")


class EndpointMismatchError(IntegrationError):
    """The endpoint is in that state already, or never was in the other."""

    code: ClassVar[str] = "ENDPOINT_STATE_MISMATCH"

    def __init__(self, name: str, word: str) -> None:
        super().__init__(
            f"The endpoint {name} is {word} already.",
            next_step="Open its page: somebody else was faster.",
        )


def pause(endpoint_id: int, author: Author, *, until: datetime) -> None:
    """Send nothing to it until then; calls under way end as they end.

    A second pause replaces the first. Raises ReasonMissingError.
    """
    _ask_why(author, "pause an endpoint")
    with transaction.atomic():
        endpoint = _locked(endpoint_id)
        endpoint.paused_until = until
        configuration.save(endpoint, author)


def resume(endpoint_id: int, author: Author) -> None:
    """End the pause now. Raises EndpointMismatchError when there is none."""
    with transaction.atomic():
        endpoint = _locked(endpoint_id)
        if endpoint.paused_until is None:
            raise EndpointMismatchError(endpoint.name, "not paused")
        endpoint.paused_until = None
        configuration.save(endpoint, author)
        _wake(endpoint)
    _ask_for_runs(endpoint_id)


def switch(endpoint_id: int, author: Author, *, to_on: bool) -> None:
    """Send to it again, or nothing until a person switches it on: what it is to get waits in Kafka.

    Raises ReasonMissingError for switching it off, EndpointMismatchError.
    """
    if not to_on:
        _ask_why(author, "switch an endpoint off")
    with transaction.atomic():
        endpoint = _locked(endpoint_id)
        if endpoint.enabled == to_on:
            raise EndpointMismatchError(endpoint.name, f"switched {'on' if to_on else 'off'}")
        endpoint.enabled = to_on
        configuration.save(endpoint, author)
        if to_on:
            _wake(endpoint)
    if to_on:
        _ask_for_runs(endpoint_id)


def _ask_why(author: Author, action: str) -> None:
    if not author.reason.strip():
        raise ReasonMissingError(action=action)


def _locked(endpoint_id: int) -> Endpoint:
    return Endpoint.objects.select_for_update(of=("self",)).get(pk=endpoint_id)


def _queues(endpoint_id: int) -> list[int]:
    named = Q(endpoint=endpoint_id) | Q(targets__endpoint=endpoint_id)
    queues = Queue.objects.filter(named, direction=Queue.Direction.OUTBOUND)
    return list(queues.order_by("pk").distinct().values_list("pk", flat=True))


def _wake(endpoint: Endpoint) -> None:
    """Have what waits for the end of the pause looked at now."""
    QueuePartition.objects.filter(
        queue__in=_queues(endpoint.pk),
        state__in=(PartitionState.OUTAGE, PartitionState.WAITING),
        state_code__in=_FOUND,
    ).update(resume_at=database_now())


def _ask_for_runs(endpoint_id: int) -> None:
    for queue in _queues(endpoint_id):
        leave_request(queue)
