"""Testing a provider: every step from the wire to each right on the cluster, with its verdict.

Nothing is written and no topic is made. What stays on the cluster is the name of a probe among
its transactional ids, which it forgets by itself after some days.
"""

import socket
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from integration.kafka import grants, listeners, tls
from integration.kafka.client import Connection, connection, new_admin
from integration.kafka.errors import BrokerProtocolError, ProviderUnusableError
from integration.kafka.grants import Resource
from integration.kafka.troubles import REFUSED, error_of, has_code, may_be_tls, words_of
from integration.models.provider import Provider
from integration.resolving import connected

REACH_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 4.0
GREETING_SECONDS: Final = 3.0
SENT_ON_SECONDS: Final = 1.0
SENT_ON_TRIES: Final = 3
PARALLEL: Final = 16


class Verdict(StrEnum):
    """The verdict on a step."""

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Right:
    """One operation on one resource."""

    operation: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """One step or resource: how it went in a sentence, and the command that mends it.

    What is not `is_needed` is only good to have: queues run without it.
    """

    title: str
    verdict: Verdict
    text: str = ""
    rights: tuple[Right, ...] = ()
    command: str = ""
    is_needed: bool = True

    @property
    def refused(self) -> list[str]:
        """The operations that the cluster refuses."""
        return [one.operation for one in self.rights if one.verdict is Verdict.REFUSED]


@dataclass(frozen=True, slots=True)
class Section:
    """Findings for one purpose."""

    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """All of it. `principal` is whom the commands grant rights to; `title` is for a good end."""

    sections: tuple[Section, ...]
    principal: str
    title: str = "Everything Sluice needs is there"

    @property
    def verdict(self) -> Verdict:
        """The worst verdict on what is needed."""
        every = (finding for section in self.sections for finding in section.findings)
        return worst(finding.verdict for finding in every if finding.is_needed)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Refused before unknown before ok.

    >>> worst([Verdict.OK, Verdict.UNKNOWN]).value
    'cannot tell'
    """
    distinct = set(verdicts)
    if Verdict.REFUSED in distinct:
        return Verdict.REFUSED
    return Verdict.UNKNOWN if Verdict.UNKNOWN in distinct else Verdict.OK


PROTOCOL: Final = "Speak the port's security protocol"
CERTIFICATES: Final = "Accept each other's certificates"
ADVERTISED: Final = Finding(
    "Go on",
    Verdict.REFUSED,
    "The brokers tell clients to come to addresses that cannot be reached from here. The "
    "administrator of the cluster corrects their advertised.listeners, or the network is opened.",
)


@dataclass(frozen=True, slots=True)
class Greeting:
    """The way in: what was found, and a client to go on with where the cluster let us in."""

    section: Section
    to: Connection | None = None
    admin: AdminClient | None = None
    cluster_rights: frozenset[str] | None = None


def greet(provider: Provider) -> Greeting:
    """Reach the addresses, log in, ask who the cluster is. Raises nothing for what is wrong."""
    reached = _all_reached(grants.addresses(provider), "Reach")
    if not any(f.verdict is Verdict.OK for f in reached):
        return Greeting(_way_in(reached))
    try:
        to = connection(provider)
        errors: list[KafkaError] = []
        with_errors = Connection(
            to.provider_id, to.name, {**to.properties, "error_cb": errors.append}
        )
        admin = new_admin(with_errors)
    except ProviderUnusableError as problem:
        return Greeting(_way_in([*reached, Finding("Client", Verdict.REFUSED, str(problem))]))
    try:
        cluster = _described(admin, errors)
    except KafkaException as problem:
        astray = _led_astray(provider, to) or [_login_failed(provider, to, problem)]
        return Greeting(_way_in([*reached, *astray]))
    principal = grants.principal_of(provider)
    nodes = [f"{node.host}:{node.port}" for node in cluster.nodes]
    who = (
        f"Cluster {cluster.cluster_id}, {len(nodes)} {'broker' if len(nodes) == 1 else 'brokers'}."
    )
    findings = [*reached, Finding(f"Log in as {principal}", Verdict.OK, who)]
    findings += _advertised(provider, nodes)
    if nodes and not _any_reached(nodes, findings):
        # Every further question goes to these addresses, and each would wait in vain.
        return Greeting(_way_in([*findings, ADVERTISED]))
    rights = cluster.authorized_operations
    # A cluster that we may not describe tells nothing about the rights on itself.
    operations = None if rights is None else frozenset(operation_name(right) for right in rights)
    return Greeting(_way_in(findings), to, admin, operations)


def _advertised(provider: Provider, nodes: Sequence[str]) -> list[Finding]:
    further = [node for node in nodes if node not in grants.addresses(provider)]
    return _all_reached(further, "Reach the broker at its advertised address")


def _led_astray(provider: Provider, to: Connection) -> list[Finding]:
    """Tell where the first broker sends us when nobody is there; the client tells of no answer.

    Asked by a client of its own: one that was sent on already waits longer and longer before it
    comes back to the first broker.
    """
    findings = _advertised(provider, _sent_on_to(to))
    if not findings or any(finding.verdict is Verdict.OK for finding in findings):
        return []
    return [*findings, ADVERTISED]


def _sent_on_to(to: Connection) -> list[str]:
    """Ask each time with another client: it may go to the next broker before it asks the first."""
    for _ in range(SENT_ON_TRIES):
        with suppress(KafkaException):
            brokers = new_admin(to).list_topics(timeout=SENT_ON_SECONDS).brokers.values()
            return [f"{broker.host}:{broker.port}" for broker in brokers]
    return []


def _any_reached(nodes: Sequence[str], findings: Sequence[Finding]) -> bool:
    ok = [finding.title for finding in findings if finding.verdict is Verdict.OK]
    return any(title.endswith(f" {node}") for title in ok for node in nodes)


def _way_in(findings: Sequence[Finding]) -> Section:
    return Section("Reach and log in", tuple(findings))


def _all_reached(addresses: Sequence[str], verb: str) -> list[Finding]:
    if not addresses:
        return []
    with ThreadPoolExecutor(min(PARALLEL, len(addresses))) as threads:
        return list(threads.map(lambda address: _reach(address, verb), addresses))


def _reach(address: str, verb: str) -> Finding:
    title = f"{verb} {address}"
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        return Finding(title, Verdict.REFUSED, "This is not written as host:port.")
    begun = time.monotonic()
    try:
        connected(host.strip("[]"), int(port), REACH_SECONDS).close()
    except OSError as problem:
        return Finding(title, Verdict.REFUSED, _why_unreached(problem, host))
    return Finding(
        title, Verdict.OK, f"It answers after {(time.monotonic() - begun) * 1000:.0f} ms."
    )


def _why_unreached(problem: OSError, host: str) -> str:
    if isinstance(problem, socket.gaierror):
        return f"The name {host} is not known to this machine's name service."
    if isinstance(problem, TimeoutError):
        return (
            f"No answer within {REACH_SECONDS:.0f} seconds: a firewall between us, a machine that "
            "is down, or a name service that does not answer."
        )
    if isinstance(problem, ConnectionRefusedError):
        return "The machine is there and nothing listens on this port: is the broker running?"
    return f"It cannot be reached: {problem.args[-1] if problem.args else problem}."


def _described(admin: AdminClient, errors: list[KafkaError]) -> Any:
    """The cluster's description; a refused login ends the wait at once. Raises KafkaException."""
    future = admin.describe_cluster(
        include_authorized_operations=True, request_timeout=GREETING_SECONDS
    )
    while not future.done():
        admin.poll(0.05)
        for error in errors:
            if error.code() in REFUSED:
                raise KafkaException(error)
    try:
        return future.result(timeout=0)
    except KafkaException as problem:
        admin.poll(0)
        raise (KafkaException(errors[0]) if errors else problem) from problem


def _login_failed(provider: Provider, to: Connection, problem: KafkaException) -> Finding:
    listener = listeners.other_than(provider.security_protocol, grants.addresses(provider))
    if listener is not None:
        wrong = BrokerProtocolError(provider.name, provider.security_protocol, listener)
        return Finding(PROTOCOL, Verdict.REFUSED, f"{wrong.code}: {wrong}")
    error = error_of(problem)
    if may_be_tls(provider.security_protocol, [] if error is None else [error]):
        certificates = tls.certificates_of(to.properties)
        ports = dict.fromkeys([*tls.named_in([error]), *grants.addresses(provider)])
        refusal = tls.refusal(provider.name, ports, certificates)
        if refusal is not None:
            text = f"{refusal.code}: {refusal}"
            return Finding(CERTIFICATES, Verdict.REFUSED, text)
    why = to.without_secrets(words_of(problem))
    title = f"Log in as {grants.principal_of(provider)}"
    if has_code(problem, REFUSED):
        return Finding(title, Verdict.REFUSED, f"{why}. Check user, password and certificates.")
    return Finding(
        title,
        Verdict.REFUSED,
        f"The port answers, the broker does not ({why}). Check whether the broker hangs, and "
        "whether Kafka listens on this port at all.",
    )


def operation_name(operation: Any) -> str:
    """Spell it like kafka-acls.sh: DESCRIBE_CONFIGS is DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


def judged(
    provider: Provider,
    resource: Resource,
    needed: Sequence[str],
    allowed: frozenset[str] | None,
    text: str = "",
) -> Finding:
    """The rights needed on a resource; `allowed` is what the cluster says, None = nothing."""
    if allowed is None:
        rights = tuple(Right(right, Verdict.UNKNOWN) for right in needed)
        missing = list(needed)
    else:
        rights = tuple(
            Right(right, Verdict.OK if right in allowed else Verdict.REFUSED) for right in needed
        )
        missing = [right for right in needed if right not in allowed]
    mends = grants.command(provider, resource, missing) if missing else ""
    return Finding(resource.words, worst(r.verdict for r in rights), text, rights, mends)


def answered(future: "Future[Any]") -> Any:
    """Wait for one answer. Raises KafkaException, also when none comes in time."""
    try:
        return future.result(timeout=ANSWER_SECONDS + 1)
    except FutureTimeoutError as problem:
        raise KafkaException(
            KafkaError(KafkaError.REQUEST_TIMED_OUT, "no answer in time")
        ) from problem
