"""How far somebody is with a new partner: what was made so far stands in the address."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import slugify

from console.layout.access import scope_of
from console.layout.asked import number_of
from console.setup.noun import Noun
from console.setup.providers import PROVIDERS
from console.setup.services import SERVICES
from console.setup.structures import STRUCTURES
from console.setup.systems import SYSTEMS
from integration.models import Queue
from integration.selectors.setup.queues import queue_named

PROVIDER, SYSTEM, SERVICE, QUEUE, MESSAGE = "provider", "system", "service", "queue", "message"
STRUCTURE: Final = "structure"
STEPS: Final = {
    PROVIDER: "Provider",
    SYSTEM: "External system",
    SERVICE: "Service",
    QUEUE: "Queue",
    MESSAGE: "Test message",
}
# What each step chooses or makes, by the name it has in the address.
NOUNS: Final[dict[str, Noun]] = {
    PROVIDER: PROVIDERS,
    SYSTEM: SYSTEMS,
    SERVICE: SERVICES,
    STRUCTURE: STRUCTURES,
}


@dataclass(frozen=True, slots=True)
class StepLink:
    """A step as the stepper draws it; `made` is what was chosen or made there."""

    title: str
    address: str
    made: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class PartnerPath:
    """What was chosen or made so far, by step; what this person may not know of is left out."""

    rows: dict[str, Any]

    def row(self, step: str) -> Any:
        return self.rows.get(step)

    def with_row(self, step: str, row: Model) -> "PartnerPath":
        return PartnerPath({**self.rows, step: row})

    @property
    def query(self) -> str:
        known = {s: r.name if s == QUEUE else r.pk for s, r in self.rows.items()}
        return urlencode(known)

    def address(self, step: str) -> str:
        """Where the step is, with all that was made so far."""
        return self._with_query(reverse("partner-step", args=[step]))

    @property
    def message_step(self) -> str:
        return self.address(MESSAGE)

    def outcome(self, message_id: str) -> str:
        return self._with_query(reverse("partner-outcome", args=[message_id]))

    def stepper(self, current: str) -> list[StepLink]:
        return [
            StepLink(title, self.address(step), str(self.row(step) or ""), step == current)
            for step, title in STEPS.items()
        ]

    def begun_queue(self) -> Queue:
        """The queue that the form begins with: named after the partner and what it sends."""
        system, service = self.row(SYSTEM), self.row(SERVICE)
        words = [str(part) for part in (system, service) if part is not None]
        name = slugify("-".join(words))[:60]
        return Queue(
            provider=self.row(PROVIDER),
            system=system,
            default_service=service,
            name=name,
            topic=name.replace("-", ".", 1),
        )

    def _with_query(self, address: str) -> str:
        return f"{address}?{self.query}" if self.rows else address


def path_of(request: HttpRequest) -> PartnerPath:
    """Read the address; numbers that lead nowhere are as if they were not there."""
    scope = scope_of(request.user)
    found: dict[str, Any] = {}
    for step, noun in NOUNS.items():
        number = number_of(request.GET.get(step, ""))
        row = None if number is None else noun.rows(scope).filter(pk=number).first()
        if row is not None:
            found[step] = row
    queue = queue_named(request.GET.get(QUEUE, ""), scope)
    if queue is not None:
        found[QUEUE] = queue
    return PartnerPath(found)
