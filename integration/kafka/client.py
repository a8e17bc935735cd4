"""The client properties of a provider row: what is decided, what may be added, what is secret."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from integration.kafka.errors import ProviderUnusableError
from integration.kafka.tls import certificates_of
from integration.models.provider import Provider
from integration.policy import client_properties

Properties = dict[str, Any]
Made = TypeVar("Made")

# A provider may change these by its own properties.
DEFAULTS: Final[Mapping[str, Any]] = {
    "client.id": "sluice",
    "reconnect.backoff.ms": client_properties.DEFAULTS["reconnect.backoff.ms"],
    "reconnect.backoff.max.ms": client_properties.DEFAULTS["reconnect.backoff.max.ms"],
    "socket.keepalive.enable": True,
    "message.max.bytes": client_properties.DEFAULTS["message.max.bytes"],
}

# The promises of the engine; merged last, so that nothing overrides them.
CONSUMER: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # Who reads joins no group. This is how long a position for lag tools waits for a coordinator
    # that is gone, and the closing of the consumer with it: 45 s by default.
    "session.timeout.ms": 2_000,
    "check.crcs": True,
    "allow.auto.create.topics": False,
    "fetch.wait.max.ms": 50,
    # Bounded queues. With the default back-off of 1 s a full queue would pause the reading for
    # a whole second after it was emptied.
    "queued.max.messages.kbytes": 16 * 1_024,
    "queued.min.messages": 20_000,
    "fetch.queue.backoff.ms": 5,
    # No shorter than watch.SURE_SECONDS: nothing of a recreated topic may come before this.
    "fetch.error.backoff.ms": 1_000,
}
# Of a client that waits for what comes, or for a group's word, and looks at no record: one request
# waits at the broker for all partitions, and a partition that is added waits for it to come back.
LITTLE: Final[Mapping[str, Any]] = {
    "enable.partition.eof": False,
    "fetch.wait.max.ms": 250,
    "fetch.message.max.bytes": 1_024,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1_024,
}
# By protocol. With the newer one the brokers decide on sessions and assignors, and the library
# refuses to be told: `session.timeout.ms` has to be left out, not only to be left as it is.
MEMBER: Final[Mapping[str, Mapping[str, Any]]] = {
    "classic": {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        # A rebalance is heard of with a heartbeat.
        "heartbeat.interval.ms": 1_000,
    },
    "consumer": {"group.protocol": "consumer"},
}
# The least that brokers allow by default, and the most that the library does.
LEAST_SESSION_SECONDS: Final = 6.0
MOST_SESSION_SECONDS: Final = 300.0
PRODUCER: Final[Mapping[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    # A batch of the relay is in the queue at once before anything is reported.
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 128 * 1_024,
}
TRANSACTIONAL: Final[Mapping[str, Any]] = {
    # 10 transactions a second with the default of 100 ms, 250 with this.
    "retry.backoff.ms": 1,
    # A transaction commits only what was confirmed; a report of each success would tell nothing.
    "delivery.report.only.error": True,
    # How long a topic that nobody knows may still be on its way: a new topic needs a moment
    # to reach every broker.
    "topic.metadata.propagation.max.ms": 2_000,
}
# These a provider may change, for its producers alone.
_PACKING: Final = ("compression.type", "linger.ms")
_IN_TRANSACTIONS: Final = ("batch.size", "transaction.timeout.ms", "delivery.timeout.ms")
# Their errors come with the answer of each call; the library's own lines would go to stderr.
ADMIN: Final[Mapping[str, Any]] = {"log_level": 2}


def _ignore(_error: KafkaError) -> None:
    """Each call tells its own errors; this one must exist and must not raise."""


QUIET: Final[Properties] = {"error_cb": _ignore}
_SECRET: Final = frozenset({"sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.pem"})


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to reach one cluster. The properties are left out of its repr: some are secret.

    `producing` is for producers alone.
    """

    provider_id: int
    name: str
    properties: Mapping[str, Any] = field(repr=False)
    producing: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def without_secrets(self, text: str) -> str:
        """`text` with every secret of this connection blotted out."""
        for name in _SECRET & self.properties.keys():
            text = text.replace(str(self.properties[name]), "***")
        return text


def connection(provider: Provider) -> Connection:
    """Read a provider row.

    Raises ProviderUnusableError for a JMS broker, and for a property that is not allowed.
    """
    if provider.is_jms:
        raise ProviderUnusableError(provider.name, "it is a JMS broker, which has no topics")
    refused = sorted(set(provider.properties) - client_properties.ALLOWED.keys())
    if refused:
        raise ProviderUnusableError(
            provider.name, f"the property {refused[0]} is decided by Sluice or not allowed"
        )
    producing = {
        name: value
        for name, value in provider.properties.items()
        if name in client_properties.PRODUCER
    }
    properties: Properties = {
        **DEFAULTS,
        **{n: value for n, value in provider.properties.items() if n not in producing},
        "bootstrap.servers": provider.bootstrap_servers,
        "security.protocol": provider.security_protocol,
        **_credentials(provider),
    }
    return Connection(provider.pk, provider.name, properties, producing)


def _credentials(provider: Provider) -> Properties:
    """SASL and certificates, as far as the security protocol uses them."""
    properties: Properties = {}
    if provider.security_protocol.startswith("SASL"):
        properties["sasl.mechanism"] = provider.sasl_mechanism
        properties |= _login(provider)
    if provider.security_protocol.endswith("SSL"):
        properties["ssl.ca.pem"] = provider.ca_certificate
        properties["ssl.certificate.pem"] = provider.client_certificate
        properties["ssl.key.pem"] = provider.client_key
    return {name: value for name, value in properties.items() if value}


def _login(provider: Provider) -> Properties:
    """User and password; with OAuth they are the id and the secret of a client of its issuer."""
    if provider.sasl_mechanism != Provider.Mechanism.OAUTHBEARER:
        return {"sasl.username": provider.username, "sasl.password": provider.password}
    name = provider.properties.get("sasl.oauthbearer.client.id", provider.username)
    return {
        "sasl.oauthbearer.method": provider.properties.get("sasl.oauthbearer.method", "oidc"),
        "sasl.oauthbearer.client.id": name,
        "sasl.oauthbearer.client.secret": provider.password,
    }


def consumer_properties(to: Connection, group: str) -> Properties:
    return {**to.properties, **CONSUMER, "group.id": group}


def member_properties(
    to: Connection, group: str, protocol: str, session_seconds: float
) -> Properties:
    """For a member of a group that reads nothing itself.

    After `session_seconds` without a word from it a classic group forgets it.
    """
    properties = {**consumer_properties(to, group), **LITTLE, **MEMBER[protocol]}
    del properties["session.timeout.ms"]
    if protocol == "classic":
        seconds = min(max(session_seconds, LEAST_SESSION_SECONDS), MOST_SESSION_SECONDS)
        properties["session.timeout.ms"] = int(seconds * 1_000)
    return properties


def producer_properties(to: Connection, transactional_id: str | None = None) -> Properties:
    """For a plain idempotent producer, or for one that writes in transactions."""
    names = _PACKING if transactional_id is None else (*_PACKING, *_IN_TRANSACTIONS)
    defaults = {name: client_properties.DEFAULTS[name] for name in names}
    chosen = {**defaults, **to.properties, **to.producing, **PRODUCER}
    if transactional_id is None:
        return chosen
    return {**chosen, **TRANSACTIONAL, "transactional.id": transactional_id}


def delivery_seconds(to: Connection) -> float:
    """How long a producer in transactions tries to send a record before it gives it up."""
    name = "delivery.timeout.ms"
    value = to.producing.get(name, client_properties.DEFAULTS[name])
    return (client_properties.whole(value) or 0) / 1_000


def new_consumer(to: Connection, group: str, callbacks: Properties = QUIET) -> Consumer:
    """Make a consumer; call it after the fork only. `callbacks` must not raise.

    Raises ProviderUnusableError.
    """
    return new_client(to, {**consumer_properties(to, group), **callbacks})


def new_client(to: Connection, properties: Properties) -> Consumer:
    """Make a consumer with exactly these properties. Raises ProviderUnusableError."""
    return _made(Consumer, to, {**properties, "logger": QuietLog()})


def new_producer(
    to: Connection, transactional_id: str | None = None, callbacks: Properties = QUIET
) -> Producer:
    """Make a producer; call it after the fork only. `callbacks` must not raise.

    Raises ProviderUnusableError.
    """
    properties = producer_properties(to, transactional_id)
    return _made(Producer, to, {**properties, **callbacks, "logger": QuietLog()})


def new_admin(to: Connection) -> "TalkingAdmin":
    """Make a client for questions; call it after the fork only. Raises ProviderUnusableError."""
    return _made(TalkingAdmin, to, {**to.properties, **ADMIN})


def _made(make: Callable[[Properties], Made], to: Connection, properties: Properties) -> Made:
    try:
        return make(properties)
    except (KafkaException, ValueError, TypeError) as e:
        raise ProviderUnusableError(to.name, to.without_secrets(str(e))) from None


class TalkingAdmin(AdminClient):
    """A client for questions that keeps what it noticed on its way to the cluster.

    A cluster that does not let us in answers with a timeout; the reason comes as an event only.
    """

    def __init__(self, properties: Properties) -> None:
        self._noticed: deque[KafkaError] = deque(maxlen=20)
        # Called inside poll(), where nothing may raise.
        callbacks: Properties = {"error_cb": self._noticed.append}
        super().__init__({**callbacks, **properties})
        self.addresses = str(properties.get("bootstrap.servers", "")).split(",")
        self.protocol = str(properties.get("security.protocol", "PLAINTEXT"))
        self.certificates = certificates_of(properties)

    def noticed(self) -> list[KafkaError]:
        """The events since this was asked last, oldest first."""
        self.poll(0)
        events = list(self._noticed)
        self._noticed.clear()
        return events


class QuietLog:
    """Takes the library's log lines. It never raises: that would lose fetched messages.

    Every failure also comes as the answer of a call or as an event, and is told there once;
    the library repeats its own lines several times a second while a broker is away.
    """

    _log = logging.getLogger("integration.kafka.client")

    def log(self, level: int, text: str, *parts: object) -> None:
        try:
            self._log.log(min(level, logging.DEBUG), text, *parts)
        except Exception:  # noqa: BLE001 - called inside poll(), where raising loses messages
            return


def bounded(call: Callable[[], None], seconds: float) -> None:
    """Make a call that may never come back; raise KafkaException when it does not in time.

    With librdkafka 2.16 send_offsets_to_transaction() ignores its own timeout after the group's
    coordinator was restarted: it hangs until some broker changes its state, ten minutes as
    measured. Its thread is given up then; whatever its producer still does is fenced by the
    next one.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as e:  # noqa: BLE001 - handed over to the thread that waits
            raised.append(e)

    thread = threading.Thread(target=run, name="bounded call", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, "no answer in time"))
    if raised:
        raise raised[0]
