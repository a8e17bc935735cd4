"""The port to a schema registry, and the failures of messages for want of a schema.

The adapter is `integration.registries`; the in-memory fake is in tests/support.
"""

from typing import Final, Protocol

from integration.formats.schema import Schema
from integration.policy.failure import Failure, FailureClass

CHANGED: Final = "SCHEMA_CHANGED"
MISFIT: Final = "SCHEMA_MISFIT"


class Schemas(Protocol):
    """The schemas of one provider's registry as the messages of one topic need them."""

    def at_hand(self, schema_id: int) -> Schema | None:
        """Return the schema if it is known here; asks nobody, takes no time."""

    def find(self, schema_id: int, *, anew: bool = False) -> Schema | Failure:
        """Return the schema, asking the registry if need be; takes a few seconds at most.

        `anew`: a message does not fit it, so the registry is asked whether it still is the same.

        Never raises: an OUTAGE where the registry does not answer, a PERMANENT failure where it
        knows no such schema, where the schema cannot be used, and where it is another one than
        was known under this id. Asked again and again, it does not ask an absent registry each
        time.
        """


def away(registry: str, why: str) -> Failure:
    text = f"The schema registry {registry} does not answer: {why}"
    return Failure(FailureClass.OUTAGE, "REGISTRY_AWAY", text)


def refused(registry: str, why: str) -> Failure:
    text = f"The schema registry {registry} does not let us in: {why}"
    return Failure(FailureClass.OUTAGE, "REGISTRY_REFUSED", text)


def not_secure(registry: str, why: str) -> Failure:
    text = f"The schema registry {registry} cannot be asked securely: {why}"
    return Failure(FailureClass.OUTAGE, "REGISTRY_CERTIFICATE", text)


def unknown(registry: str, schema_id: int) -> Failure:
    text = (
        f"The schema registry {registry} knows no schema with the id {schema_id}. Ask the sender "
        "which registry it writes by; once the schema is there, release the message."
    )
    return Failure(FailureClass.PERMANENT, "SCHEMA_UNKNOWN", text)


def changed(registry: str, schema_id: int) -> Failure:
    text = (
        f"The schema registry {registry} has another schema under the id {schema_id} than it had "
        "before: it was rebuilt, or another registry answers at its address. Which of them wrote "
        "this message is not guessed. Once that is clear, forget the known schemas on the "
        "provider's page, and release the message."
    )
    return Failure(FailureClass.PERMANENT, "SCHEMA_CHANGED", text)


def unusable(schema_id: int, sentence: str) -> Failure:
    return Failure(FailureClass.PERMANENT, "SCHEMA_NOT_READ", f"Schema {schema_id}: {sentence}")


def no_registry(provider: str) -> Failure:
    text = (
        "The message is in a schema registry's format: it begins with a zero byte and the id of a "
        f"schema. The provider {provider} has no registry. Enter its address there, and release "
        "the message."
    )
    return Failure(FailureClass.PERMANENT, "NO_REGISTRY", text)


def mismatch(interface: str, expected: str, found: str) -> Failure:
    text = (
        f"The service {interface} expects {expected}, and the message is {found}. Ask the sender, "
        "or change the format of the service, and release the message."
    )
    return Failure(FailureClass.PERMANENT, "FORMAT_MISMATCH", text)
