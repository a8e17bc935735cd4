"""Troubles between us and a cluster, as errors with a code and a next step."""

from collections.abc import Sequence
from typing import ClassVar, Final

from integration.errors import IntegrationError
from integration.kafka.listeners import Listener

# More names than this say no more.
_NAMED: Final = 5


class ProviderError(IntegrationError):
    """A provider with which something cannot be done; `says` and `advice` are its words."""

    says: ClassVar[str]
    advice: ClassVar[str]

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(self.says.format(provider, reason), next_step=self.advice)


class BrokerUnreachableError(ProviderError):
    """No broker of the cluster gave an answer in time."""

    code = "BROKER_UNREACHABLE"
    says = "Kafka does not answer at the provider {}: {}."
    advice = "Check the bootstrap servers, the network and that the brokers run."


class BrokerRefusedError(BrokerUnreachableError):
    """The cluster answers, but not to us: credentials, certificates or rights."""

    code = "BROKER_REFUSED"
    says = "Kafka refuses the provider {}: {}."
    advice = (
        "Check the user, password and certificates of the provider, and what they may do on the "
        "cluster."
    )


class BrokerProtocolError(BrokerRefusedError):
    """A port of the cluster speaks another security protocol than the provider is set to."""

    code = "BROKER_PROTOCOL"

    def __init__(self, provider: str, protocol: str, listener: Listener) -> None:
        fitting = " or ".join(listener.protocols)
        IntegrationError.__init__(
            self,
            f"The provider {provider} is set to {protocol}, but the port {listener.address} speaks "
            f"{fitting}.",
            next_step=f"Set the provider's security protocol to {fitting}, or its bootstrap "
            f"servers to a port that speaks {protocol}.{_login(protocol, listener)}",
        )


def _login(protocol: str, listener: Listener) -> str:
    """Say what else has to be entered where the port wants a login and none is set."""
    if not listener.logs_in or protocol.startswith("SASL"):
        return ""
    offered = f" (offered: {', '.join(listener.mechanisms)})" if listener.mechanisms else ""
    return f" The port asks for a login: enter mechanism{offered}, user and password as well."


class BrokerRightsError(BrokerRefusedError):
    """The cluster lets us in and refuses one request: a right is missing."""

    code = "BROKER_RIGHTS"
    says = "Kafka lets the provider {} in, but refuses it a right: {}."
    advice = (
        "Test the connection on the provider's page: it names each missing right with the command "
        "that grants it. So does check_flow for one queue."
    )


class GroupRefusedError(IntegrationError):
    """The consumer group that a queue is to join does not take us."""

    code = "GROUP_REFUSED"

    def __init__(self, provider: str, group: str, reason: str) -> None:
        super().__init__(
            f"The consumer group {group} of the provider {provider} cannot be joined: "
            f"{reason.rstrip('.')}.",
            next_step="Check the flow of the queue: it names a missing right with the command that "
            "grants it. A cluster without the consumer protocol needs the classic one.",
        )


class CertificateExpiredError(BrokerRefusedError):
    """A broker's certificate is not valid any more, or not yet."""

    code = "BROKER_CERTIFICATE_EXPIRED"

    def __init__(self, provider: str, address: str, says: str) -> None:
        IntegrationError.__init__(
            self,
            f"The certificate of {address} is not accepted for the provider {provider}: {says}.",
            next_step="Let the cluster's administrator renew the broker's certificate. If its "
            "dates are right, correct the clock of this machine.",
        )


class CertificateUntrustedError(BrokerRefusedError):
    """Nobody whom we trust vouches for a broker's certificate."""

    code = "BROKER_CERTIFICATE_UNTRUSTED"

    def __init__(
        self, provider: str, address: str, issuer: str, says: str, *, has_authorities: bool
    ) -> None:
        whose = "its CA certificates" if has_authorities else "the authorities of this machine"
        issued = f" It is issued by {issuer}." if issuer else ""
        IntegrationError.__init__(
            self,
            f"The certificate of {address} is not accepted for the provider {provider}: {whose} "
            f"do not vouch for it ({says}).{issued}",
            next_step="Enter the certificate of the cluster's own authority as the provider's CA "
            "certificates.",
        )


class CertificateNameError(BrokerRefusedError):
    """A broker's certificate is for another host than the one that was connected to."""

    code = "BROKER_CERTIFICATE_NAME"

    def __init__(self, provider: str, address: str, host: str, names: Sequence[str]) -> None:
        known = f" It is for {', '.join(names[:_NAMED])}." if names else ""
        IntegrationError.__init__(
            self,
            f"The certificate of {address} is not for the host {host} that the provider "
            f"{provider} connects to.{known}",
            next_step="Write a name of the certificate in the provider's bootstrap servers and in "
            "the brokers' advertised.listeners, or have a certificate issued for this host.",
        )


class OwnCertificateError(BrokerRefusedError):
    """A broker asks for a certificate and gets none, or does not take ours."""

    code = "CLIENT_CERTIFICATE"

    def __init__(self, provider: str, address: str, why_not: str) -> None:
        text = f"asks for a client certificate, and the provider {provider} has none"
        step = "Enter the certificate and the private key that the cluster's administrator gave."
        if why_not:
            text = f"does not accept the certificate of the provider {provider}: {why_not}"
            step = (
                "Enter a certificate that is valid and issued by an authority that the brokers "
                "trust, with its private key."
            )
        IntegrationError.__init__(self, f"The broker at {address} {text}.", next_step=step)


class ProviderUnusableError(ProviderError):
    """The provider's settings do not make a client."""

    code = "PROVIDER_UNUSABLE"
    says = "No Kafka client can be made from the provider {}: {}."
    advice = "Correct the provider in the console, or choose another one."


class TopicUnknownError(IntegrationError):
    """The topic is not on the cluster."""

    code = "TOPIC_UNKNOWN"

    def __init__(self, provider: str, topic: str) -> None:
        super().__init__(
            f"The topic {topic} does not exist at the provider {provider}.",
            next_step="Create it, or correct its name.",
        )


class TopicRefusedError(IntegrationError):
    """The cluster did not create the topic."""

    code = "TOPIC_REFUSED"

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(
            f"Kafka did not create the topic {topic}: {reason}.",
            next_step="Let the cluster's administrator create it, or give our user the right to.",
        )


class SendFailedError(IntegrationError):
    """Kafka did not take what was sent."""

    code = "SEND_FAILED"

    def __init__(self, name: str, count: int, reason: str) -> None:
        super().__init__(
            f"Kafka did not take {count} of what was sent by {name!r}: {reason.rstrip('.')}.",
            next_step="Nothing of a transaction was written. Without one, send what is missing "
            "again once the reason is mended.",
        )


class NotTransactionalError(IntegrationError):
    """A session was asked to commit or roll back, and has no transactions."""

    code = "NOT_TRANSACTIONAL"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The connections of {name!r} have no transactions.",
            next_step="Switch transactions on for the factory, or use flush().",
        )
