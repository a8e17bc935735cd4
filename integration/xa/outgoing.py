"""A message as the application sent it."""

from dataclasses import dataclass, field

from integration.kafka.slots import Headers


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Where it is to go, and what it consists of."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: Headers = field(default_factory=list)
