"""The names of consumer groups: how a queue's is called, and which ones it may not join."""

from collections.abc import Iterable
from typing import Final

# So begin the groups in which relays keep their watermarks.
RELAYS: Final = "sluice."


def default_name(deployment: str, queue: str) -> str:
    """Return the group in which a queue shows its position; it names the deployment.

    >>> default_name("plant", "orders")
    'plant-orders'
    """
    return f"{deployment}-{queue}"


def mistake(name: str, *, is_read: bool, has_protocol: bool) -> tuple[str, str] | None:
    """Return the setting that is wrong, and why; None where nothing is.

    >>> mistake("", is_read=True, has_protocol=True)
    >>> mistake("orders", is_read=True, has_protocol=False)[0]
    'group_id'
    """
    if has_protocol and not is_read:
        return "group_protocol", "Only an inbound queue joins a consumer group: leave it out."
    if name and not has_protocol:
        text = "No group is joined without a protocol: choose one, or leave the group out."
        return "group_id", text
    if name.startswith(RELAYS):
        text = f"Groups that begin with {RELAYS} keep the watermarks of relays: choose another one."
        return "group_id", text
    return None


def taken(name: str, deployment: str, others: Iterable[str]) -> tuple[str, str] | None:
    """Return why a group may not be joined in which one of the other queues shows its position.

    Who is no member may not commit to a group that has some.
    """
    for other in others:
        if default_name(deployment, other) == name:
            text = f"The queue {other} shows its position in this group: choose another one."
            return "group_id", text
    return None
