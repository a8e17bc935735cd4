"""Troubles between us and a JMS broker that is read from, as errors with a code and a next step."""

import re
from typing import ClassVar, Final

from integration.errors import IntegrationError

UNAUTHORIZED: Final = "amqp:unauthorized-access"
NO_RIGHTS: Final = frozenset({UNAUTHORIZED, "amqp:security"})
# Artemis calls a right that is missing to make an address an internal error; its number tells.
_NO_RIGHT: Final = re.compile(r"\bAMQ229(032|213)\b")


def is_lack_of_rights(condition: str, text: str) -> bool:
    """Return whether a broker ended a link because the user may not do that."""
    return condition in NO_RIGHTS or _NO_RIGHT.search(text) is not None


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


class JmsRightsError(JmsError):
    """The broker lets us in, and does not let us read from an address."""

    code = "JMS_RIGHTS"
    says = "The JMS broker {} refuses us a right: {}."
    advice = "Let the provider's user consume there; where the broker makes addresses, also that."


class JmsSelectorError(JmsError):
    """The broker does not take the selector of a queue."""

    code = "JMS_SELECTOR"
    says = "The JMS broker {} does not take the selector: {}."
    advice = "Correct the queue's selector; its grammar is that of JMS."


class JmsAddressRefusedError(JmsError):
    """The broker does not let us read from an address, for another reason than those above."""

    code = "JMS_ADDRESS_REFUSED"
    says = "The JMS broker {} lets us read nothing: {}."
    advice = "Check the queue's address, and whether it is a queue or a topic there."


class JmsInUseError(JmsError):
    """Another connection reads for the same queue; two at once would break its order."""

    code = "JMS_IN_USE"
    says = "The JMS broker {} still holds another connection that reads for this queue: {}."
    advice = (
        "It ends by itself within a minute once its process is gone. Where it does not, another "
        "installation has the same deployment name."
    )


class JmsTooLargeError(IntegrationError):
    """A message at the address is larger than any that is read."""

    code = "JMS_TOO_LARGE"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The JMS broker has what cannot be read: {reason}.",
            next_step="Take that message away at the broker, or have it sent in parts.",
        )


class JmsAddressUnknownError(JmsError):
    """The broker has no such queue or topic, and makes none."""

    code = "JMS_ADDRESS_UNKNOWN"
    says = "The JMS broker {} has no such address: {}."
    advice = "Have it made at the broker, or correct the queue's address."


class JmsBrowseRefusedError(JmsError):
    """The broker does not let us look at what waits at an address; reading is another right."""

    code = "JMS_BROWSE_REFUSED"
    says = "The JMS broker {} does not let us look at what waits: {}."
    advice = "Let the provider's user browse there. To read, a queue does not need that right."


class JmsSubscriptionHiddenError(JmsError):
    """What waits for a durable subscription is shown by the broker to its reader alone."""

    code = "JMS_SUBSCRIPTION_HIDDEN"
    says = "The JMS broker {} does not show what waits for the durable subscription: {}."
    advice = (
        "Artemis shows it once the queue's first run has begun the subscription; other brokers may "
        "not. The queue reads it all the same."
    )


class JmsLibraryMissingError(IntegrationError):
    """This installation cannot speak AMQP 1.0."""

    code = "JMS_LIBRARY_MISSING"

    def __init__(self) -> None:
        super().__init__(
            "This installation has no library for AMQP 1.0.",
            next_step="Install sluice[amqp] (or what requirements-amqp.txt lists) on every machine "
            "with a worker or the web server; that needs a C compiler. Then start them anew.",
        )
