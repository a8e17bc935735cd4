"""Additions of sending to a commit: calls that are about to be made, and how others ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from integration.delivery.unit import OpenError, Unit
from integration.policy.states import DeliveryState


@dataclass(slots=True)
class Intent:
    """One message whose call is made once this is committed.

    The repository writes `id`, the delivery's number. It stays None when the call must not be made:
    the circuit is not what it was, or a person moved the failure or set a stop before the message.
    `replaces` are earlier calls of the message whose end nobody knows; this one takes their place.
    """

    unit: Unit
    endpoint: int
    attempt: int = 1
    circuit_version: int | None = None
    replaces: tuple[int, ...] = ()
    id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryEnd:
    """The end of one call of an endpoint; `took_ms` is None when nobody measured it."""

    id: int
    state: DeliveryState
    took_ms: int | None = None
    status: int | None = None
    code: str = ""
    text: str = ""
    excerpt: str = ""
    endpoint: int | None = None


@dataclass(slots=True)
class Dispatch:
    """The part of a batch result that only sending has.

    `returned` are failures whose call told nothing about them: they get their state back.
    """

    intents: list[Intent] = field(default_factory=list)
    ends: list[DeliveryEnd] = field(default_factory=list)
    returned: list[OpenError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call that an earlier owner committed and never settled. It may have happened.

    `endpoint` is the one that was called. `repeated` counts how often the message was sent again
    after such an end. `is_held`: a person decided that it is not sent again by itself, whatever its
    endpoint would do with a repeat.
    """

    id: int
    endpoint: int
    attempt: int
    repeated: int
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class Past:
    """Earlier calls of a partition's messages, as far as they were asked for; see ports."""

    delivered: Mapping[int, str] = field(default_factory=dict)
    """offset -> message id of what its endpoint took already"""
    deleted: Mapping[int, bytes] = field(default_factory=dict)
    """offset -> content hash of what a person deleted after it had failed"""
    doubts: Mapping[int, Doubt] = field(default_factory=dict)
    """by offset, of messages that came from Kafka"""
    doubted_errors: Mapping[UUID, Doubt] = field(default_factory=dict)
    """by failure, of messages that came from the error table"""
    last: int = -1
    """the highest offset from the position on that its endpoint took already; -1: none"""

    def doubt_of(self, unit: Unit) -> Doubt | None:
        """Return the call of this message that may have happened, if there is one."""
        if unit.row is not None:
            return self.doubted_errors.get(unit.row.id)
        return self.doubts.get(unit.record.offset)
