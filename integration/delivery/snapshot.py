"""One frozen picture of a queue's configuration; every batch is worked under exactly one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from integration.delivery.tracked import Following, Writer
from integration.delivery.tracked import Reader as Texts
from integration.envelope.retry_wrapper import unwrap
from integration.handlers.registry import Registration
from integration.policy.failure import Failure, FailureClass
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.retry import RetryPolicy, RetryRule, RetrySource, choose
from integration.values import content_hash


@dataclass(frozen=True, slots=True)
class Service:
    """The configuration of one interface: who takes it, or why nobody may now.

    `retry` is what was set up for the service itself; its handler may have declared another rule.
    `format` is the one that its messages must have, empty for any.
    """

    interface: str
    taker: Registration | None
    refusal: Failure | None = None
    deletes_on_tombstone: bool = False
    retry: RetryRule | None = None
    format: str = ""


@dataclass(frozen=True, slots=True)
class Forward:
    """What writes the messages of a queue to another topic, in the transaction that reads them.

    Without a `taker` nothing can, and `problem` says why. `is_parsed`: it asks for something of
    their content; otherwise they go on whatever is in them. `mark` is as that of a queue.
    """

    taker: Registration | None
    problem: str = ""
    is_parsed: bool = False
    mark: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSnapshot:
    """The part of an endpoint that sending needs. `mark` changes when any setting of it did."""

    id: int
    name: str
    system: str
    idempotent: bool = False
    rate_per_second: float | None = None
    max_concurrent: int = 8
    open_after: int = 5
    as_it_is: bool = False
    """it takes payloads whatever is in them"""
    mark: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """Everything the engine needs to know of a queue. `mark` changes when any of it did.

    `strict_error_queue` is the error queue's id when its order is kept (`strict_order`). An
    outbound queue is `sends`: its messages go to `endpoint`, unless `routes` name another one for
    their interface, or None where the partner reads the topic. One with a `forward` is not called:
    that is the handler of all of them.
    """

    id: int
    name: str
    provider_id: int
    provider_name: str
    topic: str
    sequential: bool
    enabled: bool = True
    paused: bool = False
    is_error_queue: bool = False
    system: str | None = None
    system_enabled: bool = True
    default_interface: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    failure_thresholds: FailureThresholds = field(default_factory=FailureThresholds)
    carrier: str = "topic"
    error_topic: str | None = None
    error_provider_id: int | None = None
    strict_error_queue: int | None = None
    on_gap: str = "block"
    on_head_expired: str = "advance"
    crash_limit: int = 3
    dedupe: bool = False
    retry_wrapper: bool = False
    two_phase: bool = False
    """what its handlers publish is written by Kafka's transaction of the same commit"""
    second_database: str = ""
    """alias of another database whose transaction is part of the same commit; "" for none"""
    is_jms: bool = False
    """its messages come from a JMS broker, as records of one partition"""
    selector: str = ""
    """which messages a JMS broker gives to its runs; "" for all"""
    batch_size: int = 500
    stay_seconds: float = 60.0
    handler_timeout_seconds: float = 60.0
    tracks: bool = True
    followed: Mapping[str, Following] = field(default_factory=dict)
    """by interface, what tracking keeps of its messages beside their ids"""
    write_tracks: Writer | None = None
    """how a store writes tracks while messages are read; None: when they have ended"""
    services: Mapping[str, Service] = field(default_factory=dict)
    sends: bool = False
    endpoint: EndpointSnapshot | None = None
    routes: Mapping[str, EndpointSnapshot | None] = field(default_factory=dict)
    forward: Forward | None = None
    concurrency: int = 1
    """how many calls, or handler transactions of one batch, may be under way at once"""
    workers: int | None = 1
    """how many runs may share its partitions; None: as many as it has partitions"""
    group: tuple[str, str] = ("", "")
    """protocol and name of the consumer group that its runs join; without a protocol they do not"""
    keeps_keys_in_order: bool = False
    order_texts: Texts | None = None
    """what reads the key whose order is kept out of documents; None: the record's key counts"""
    worker: str = ""
    reached_by: str = ""
    """a digest of the addresses and logins of its provider, and of the registry beside it"""
    mark: Any = None

    @property
    def joins_group(self) -> bool:
        """Return whether its runs are members of a consumer group."""
        return bool(self.group[0])

    @property
    def threads(self) -> int:
        """Return how many handler transactions of one batch may run side by side."""
        return 1 if self.sequential or self.sends or self.is_error_queue else self.concurrency

    @property
    def reads_content(self) -> bool:
        """Return whether anybody asks for what is in its messages."""
        if self.forward is not None:
            return self.forward.is_parsed
        endpoints = [one for one in (self.endpoint, *self.routes.values()) if one is not None]
        return not endpoints or not all(one.as_it_is for one in endpoints)

    @property
    def needs_one_partition(self) -> bool:
        """Return whether its order would be lost in a topic with several partitions."""
        return self.sequential or self.order_texts is not None

    @property
    def keeps_copies_in_order(self) -> bool:
        """Return whether this is an error queue with strict order."""
        return self.is_error_queue and self.sequential

    def hash_of(self, value: bytes | None) -> bytes:
        """Return what tells a repetition of a message from another one under the same id.

        Whoever sends a message again counts in its retry wrapper: only what is wrapped counts here.
        """
        wrapped = unwrap(value) if self.retry_wrapper else None
        return content_hash(value if wrapped is None else wrapped[1])

    def endpoint_for(self, interface: str) -> EndpointSnapshot | None:
        """Return where messages of `interface` are delivered; None: partners read the topic."""
        return self.routes.get(interface, self.endpoint) or self.endpoint

    def retry_for(self, interface: str) -> tuple[RetryPolicy, RetrySource]:
        """Return the retry policy of messages of `interface`, and whose it is."""
        service = None if self.sends else self.services.get(interface)
        if service is None:
            return choose(self.retry)
        declared = None if service.taker is None else service.taker.retry
        return choose(self.retry, service=service.retry, handler=declared)

    def service_for(self, interface: str | None) -> Service | Failure:
        """Return who takes messages of `interface` (None: the queue's default), or why nobody."""
        if self.sends:
            # Whatever it is called, it is delivered; whether it may be now, its endpoint tells.
            taker = None if self.forward is None else self.forward.taker
            return Service(interface or self.name, taker, deletes_on_tombstone=taker is not None)
        name = interface or self.default_interface
        if not name:
            return NO_SERVICE
        if not self.system_enabled:
            return Failure(
                FailureClass.DISABLED,
                "SYSTEM_DISABLED",
                f"The external system {self.system} is switched off.",
            )
        service = self.services.get(name)
        if service is None:
            return Failure(
                FailureClass.PERMANENT,
                "UNKNOWN_SERVICE",
                f"No enterprise service is registered for {name[:100]!r}.",
            )
        return service.refusal or service


NO_SERVICE = Failure(
    FailureClass.PERMANENT,
    "NO_SERVICE",
    "The message names no service, neither in an envelope nor in a header, "
    "and the queue has no default.",
)
