"""Troubles between us and a cluster, as errors with a code and a next step."""

from typing import ClassVar

from integration.errors import IntegrationError
from integration.kafka.listeners import Listener


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


class ProviderUnusableError(ProviderError):
    """The provider's settings do not make a client."""

    code = "PROVIDER_UNUSABLE"
    says = "No Kafka client can be made from the provider {}: {}."
    advice = "Correct the provider in the console."


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
