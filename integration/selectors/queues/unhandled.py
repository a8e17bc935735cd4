"""The services for which queues wait because no handler of theirs is installed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from integration.models import EnterpriseService
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import HANDLER_MISSING

# As integration.store.configuration writes it; a partition keeps only the sentence.
_NAMED: Final = re.compile(r"No handler for (.+) is installed on worker ")


@dataclass(frozen=True, slots=True)
class Untaken:
    """A service by number and name."""

    number: int
    interface: str


def unhandled(rows: Sequence[QueueRow]) -> dict[int, Untaken]:
    """The service that each such queue waits for, by the queue's id; one query, or none."""
    named = {row.id: name for row in rows if (name := _named(row))}
    if not named:
        return {}
    services = EnterpriseService.objects.filter(interface__in=set(named.values()))
    takers = {name: Untaken(pk, name) for pk, name in services.values_list("pk", "interface")}
    return {queue: takers[name] for queue, name in named.items() if name in takers}


def _named(row: QueueRow) -> str:
    texts = (part.state_text for part in row.partitions if part.code == HANDLER_MISSING)
    return next((match[1] for text in texts if (match := _NAMED.match(text))), "")
