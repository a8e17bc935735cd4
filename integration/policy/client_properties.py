"""Properties of the Kafka client that a provider may set, and why the others are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number between two bounds."""

    least: int
    most: int
    unit: str

    @property
    def words(self) -> str:
        return f"{self.least} to {self.most} {self.unit}".strip()

    def takes(self, value: object) -> bool:
        return (number := whole(value)) is not None and self.least <= number <= self.most


@dataclass(frozen=True, slots=True)
class Choice:
    """One word of several."""

    values: tuple[str, ...]

    @property
    def words(self) -> str:
        return ", ".join(self.values)

    def takes(self, value: object) -> bool:
        return (str(value).lower() if isinstance(value, bool) else value) in self.values


@dataclass(frozen=True, slots=True)
class Text:
    """Any text without control characters, or halves of characters."""

    words: str = "a text"

    def takes(self, value: object) -> bool:
        return isinstance(value, str) and bool(value.strip()) and value.isprintable()


Rule = Number | Choice | Text
SWITCH: Final = Choice(("true", "false"))
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BESIDE_BYTES: Final = 512
LONGEST_NUMBER: Final = 30

# For producers alone: what relays, retry markers and bulk jobs write with. The relay's lease
# outlasts one batch with the longest delivery.timeout.ms.
PRODUCER: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "linger.ms": Number(0, 5_000, "ms"),
        "batch.size": Number(1_000, 16_000_000, "bytes"),
        "compression.type": Choice(("none", "gzip", "snappy", "lz4", "zstd")),
        "compression.level": Number(-1, 12, ""),
        "delivery.timeout.ms": Number(1_000, 60_000, "ms"),
        "request.timeout.ms": Number(1_000, 900_000, "ms"),
        "transaction.timeout.ms": Number(10_000, 900_000, "ms"),
    }
)
CLIENT: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "client.id": Text(),
        "client.rack": Text(),
        "broker.address.family": Choice(("any", "v4", "v6")),
        "connections.max.idle.ms": Number(0, 2**31 - 1, "ms"),
        "message.max.bytes": Number(1_000, 10**9, "bytes"),
        # Room for one answer of the client library's usual size.
        "receive.message.max.bytes": Number(52_428_800 + BESIDE_BYTES, 2**31 - 1, "bytes"),
        "metadata.max.age.ms": Number(1, DAY_MS, "ms"),
        "reconnect.backoff.max.ms": Number(0, HOUR_MS, "ms"),
        "reconnect.backoff.ms": Number(0, HOUR_MS, "ms"),
        "sasl.kerberos.service.name": Text(),
        "sasl.oauthbearer.client.id": Text(),
        "sasl.oauthbearer.method": Choice(("oidc", "default")),
        "sasl.oauthbearer.scope": Text(),
        "sasl.oauthbearer.token.endpoint.url": Text(),
        "socket.connection.setup.timeout.ms": Number(1_000, 2**31 - 1, "ms"),
        "socket.keepalive.enable": SWITCH,
        "socket.timeout.ms": Number(10, 300_000, "ms"),
        "ssl.cipher.suites": Text(),
        "ssl.endpoint.identification.algorithm": Choice(("https", "none")),
    }
)
ALLOWED: Final[Mapping[str, Rule]] = MappingProxyType({**CLIENT, **PRODUCER})

_ACKS: Final = "a message counts as sent only once every in-sync copy has confirmed it"
_IN_ORDER: Final = "without it a repeat of the client could double messages or change their order"
_POSITION: Final = "the position of a queue is kept in the database and nowhere else"
_ISOLATION: Final = "messages of a transaction that was taken back must never be read"
_OWN_FIELD: Final = "the provider has a field for it"
_LOOKED_AT: Final = "how often and for how long it is tried again is given by delivery.timeout.ms"
# Name -> why Sluice decides it, or what to write instead.
DECIDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "acks": _ACKS,
        "request.required.acks": _ACKS,
        "enable.idempotence": _IN_ORDER,
        "max.in.flight": _IN_ORDER,
        "max.in.flight.requests.per.connection": _IN_ORDER,
        "retries": _LOOKED_AT,
        "message.send.max.retries": _LOOKED_AT,
        "partitioner": "a key has to go to the partition where Java's clients put it",
        "transactional.id": "it is how a relay fences off the one before it",
        "isolation.level": _ISOLATION,
        "check.crcs": "a damaged record must not pass for a message",
        "auto.offset.reset": "a gap in a topic is shown to people, and never jumped over",
        "enable.auto.commit": _POSITION,
        "enable.auto.offset.store": _POSITION,
        "group.id": _POSITION,
        "allow.auto.create.topics": "a slip in a topic's name must not create a topic",
        "bootstrap.servers": _OWN_FIELD,
        "security.protocol": _OWN_FIELD,
        "sasl.mechanism": _OWN_FIELD,
        "sasl.mechanisms": _OWN_FIELD,
        "sasl.username": _OWN_FIELD,
        "sasl.password": f"{_OWN_FIELD}, which is stored encrypted",
        "sasl.oauthbearer.client.secret": "write it as the password, which is stored encrypted",
        "ssl.ca.pem": _OWN_FIELD,
        "ssl.certificate.pem": _OWN_FIELD,
        "ssl.key.pem": f"{_OWN_FIELD}, which is stored encrypted",
        "enable.ssl.certificate.verification": "it would send passwords to whoever answers; enter "
        "the CA certificates of the cluster",
        "message.timeout.ms": "write delivery.timeout.ms",
        "queue.buffering.max.ms": "write linger.ms",
        "compression.codec": "write compression.type",
    }
)
# What counts where a provider says nothing; the values of a relay.
DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "compression.type": "lz4",
        "linger.ms": 5,
        # A topic's limit applies to the packets of the client: small ones keep below most limits,
        # so that only a record that is too large itself is refused.
        "batch.size": 100_000,
        "transaction.timeout.ms": 60_000,
        "delivery.timeout.ms": 20_000,
        # The topic's limit decides what is too large, not the client's default of 1 MB.
        "message.max.bytes": 64 * 2**20,
        # The library waits up to 10 s by default; a broker that is back should be noticed at once.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
    }
)
# The one is at most the other, less so much. Where no other is given, the library finds a fitting.
_AT_MOST: Final = (
    ("delivery.timeout.ms", 0, "transaction.timeout.ms"),
    ("socket.timeout.ms", 0, "transaction.timeout.ms"),
    ("linger.ms", 1, "delivery.timeout.ms"),
    ("message.max.bytes", BESIDE_BYTES, "receive.message.max.bytes"),
    ("reconnect.backoff.ms", 0, "reconnect.backoff.max.ms"),
)


def mistakes(properties: Mapping[str, object]) -> list[str]:
    """Say what is wrong with a provider's properties, one sentence each; none = nothing.

    >>> mistakes({"acks": "1"})[0].startswith("acks cannot be set: a message counts as sent only")
    True
    >>> mistakes({"linger.ms": 20, "compression.type": "zstd"})
    []
    """
    found = [said for name in sorted(properties) if (said := _mistake(name, properties[name]))]
    return found or _contradictions(properties)


def _mistake(name: str, value: object) -> str:
    rule = ALLOWED.get(name)
    if rule is None:
        why = DECIDED.get(name)
        if why is not None:
            return f"{name} cannot be set: {why}."
        return f"{name} cannot be set: it is not one of {', '.join(sorted(ALLOWED))}."
    return "" if rule.takes(value) else f"{name} has to be {rule.words}."


def _contradictions(properties: Mapping[str, object]) -> list[str]:
    """What the client library would refuse as it is started, said as it is saved."""
    effective = {**DEFAULTS, **properties}
    found = []
    for smaller, less, larger in _AT_MOST:
        low, high = whole(effective.get(smaller)), whole(effective.get(larger))
        if low is not None and high is not None and low > high - less:
            most = f"{larger} ({high})" + (f" less {less}" if less else "")
            found.append(f"{smaller} ({low}) has to be at most {most}.")
    return found


def whole(value: object) -> int | None:
    """A whole number that may be written as a text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.strip().lstrip("-").isascii():
        # Python reads no number of more than 4,300 digits.
        is_number = len(value) <= LONGEST_NUMBER and value.strip().removeprefix("-").isdecimal()
        value = int(value) if is_number else None
    return value if isinstance(value, int) else None
