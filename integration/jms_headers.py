"""The headers in which records of Kafka carry what only JMS messages have."""

from enum import StrEnum
from typing import Final

# The kind of JMS message that it was, one of JmsBody.
BODY: Final = "jms-body"
# A JSON object: the types of those properties that are no texts, by name.
TYPES: Final = "jms-types"
# Likewise of the entries of a map by name; of a stream as an array, "" where JSON tells the type.
ENTRY_TYPES: Final = "jms-body-types"
# A FlawCode, a colon and why: the message waits for a person, whatever its body says.
FLAW: Final = "sluice-jms-flaw"
MESSAGE_ID: Final = "sluice-message-id"


class FlawCode(StrEnum):
    """What keeps a message from being read, or from being known when it comes again."""

    NO_MESSAGE_ID = "JMS_NO_MESSAGE_ID"
    NOT_READ = "JMS_NOT_READ"


class JmsBody(StrEnum):
    """The kinds of JMS messages; without a body it is none of the others."""

    NONE = "message"
    TEXT = "text"
    BYTES = "bytes"
    MAP = "map"
    STREAM = "stream"
    OBJECT = "object"
