"""Troubles between us and a JMS broker that is read from, as errors with a code and a next step."""

from typing import ClassVar

from integration.errors import IntegrationError


class JmsError(IntegrationError):
    """A JMS broker with which something cannot be done; `says` and `advice` are its words."""

    says: ClassVar[str]
    advice: ClassVar[str]

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(self.says.format(provider, reason.rstrip(".")), next_step=self.advice)


class JmsUnreachableError(JmsError):
    """None of the broker's addresses gave an answer in time."""

    code = "JMS_UNREACHABLE"
    says = "The JMS broker {} does not answer: {}."
    advice = "Check the provider's servers, the network, and that the broker runs."


class JmsRefusedError(JmsError):
    """The broker answers, but not to us."""

    code = "JMS_REFUSED"
    says = "The JMS broker {} refuses the connection: {}."
    advice = "Check user and password of the provider, and what that user may do at the broker."


class JmsCertificateError(JmsError):
    """The broker's certificate is not accepted by us, or ours by it."""

    code = "JMS_CERTIFICATE"
    says = "There is no secure connection to the JMS broker {}: {}."
    advice = "Check the certificates of the provider, and whether that port speaks TLS at all."


class JmsAddressRefusedError(JmsError):
    """The broker does not let us read from an address, or not with that selector."""

    code = "JMS_ADDRESS_REFUSED"
    says = "The JMS broker {} lets us read nothing: {}."
    advice = "Check the queue's address and selector, and that the user may consume there."


class JmsInUseError(JmsError):
    """Another connection reads for the same queue; two at once would break its order."""

    code = "JMS_IN_USE"
    says = "The JMS broker {} still holds another connection that reads for this queue: {}."
    advice = (
        "It ends by itself within a minute once its process is gone. Where it does not, another "
        "installation has the same deployment name."
    )


class JmsAddressUnknownError(JmsError):
    """The broker has no such queue or topic, and makes none."""

    code = "JMS_ADDRESS_UNKNOWN"
    says = "The JMS broker {} has no such address: {}."
    advice = "Have it made at the broker, or correct the queue's address."


class JmsLibraryMissingError(IntegrationError):
    """This installation cannot speak AMQP 1.0."""

    code = "JMS_LIBRARY_MISSING"

    def __init__(self) -> None:
        super().__init__(
            "This installation has no library for AMQP 1.0.",
            next_step="Install what requirements-amqp.txt lists on every machine with a worker or "
            "the web server; that needs a C compiler. Then start them anew.",
        )
