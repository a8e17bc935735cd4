"""Where a queue's order key stands in its documents: what is wrong with such a path."""

from typing import Any

from integration.paths import BadPath, compile_path
from integration.policy.states import OPEN, in_order


def mistake(path: str, *, is_used: bool, is_late: bool) -> str:
    """Say why a queue cannot have this path, or nothing.

    `is_used`: its messages are kept in the order of a key; `is_late`: of failures that are open the
    key was read otherwise.
    """
    if is_late:
        return "Failures are open, and their keys were read otherwise: close them first."
    if not path:
        return ""
    try:
        compile_path(path)
    except BadPath as e:
        return str(e)
    if not is_used:
        return "Only a continuous inbound queue with the order of a key uses it: leave it out."
    return ""


def is_late(queue: Any, stored: Any) -> bool:
    """Return whether the path of a queue changes while failures wait whose key it has read."""
    if stored.order_path == queue.order_path or not queue.keeps_keys_in_order:
        return False
    waiting = queue.errors.filter(state__in=in_order(OPEN), order_key__isnull=False)
    return bool(waiting.exists())
