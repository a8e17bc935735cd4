"""The properties of an endpoint that is another topic of Kafka."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from integration.endpoints.declared import FIELDS, Properties, Shape, declare, part

AS_IT_IS: Final = "record"
BY_PATHS: Final = "fields"
BY_FUNCTION: Final = "function"
OWN_KEY: Final = "record"
NEW_KEY: Final = "template"
NO_KEY: Final = "none"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def _topic(value: str) -> str:
    if not _TOPIC.fullmatch(value) or value in {".", ".."}:
        return "must be the name of a topic: letters, digits, dots, _ and -, at most 249"
    return "must be no topic of Kafka's own" if value.startswith("__") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaProperties(Properties):
    """A record of another topic for each message."""

    label: ClassVar[str] = "Kafka topic"
    about: ClassVar[str] = (
        "Another topic, of the same or another cluster: each message is forwarded exactly once."
    )
    repeats: ClassVar[str] = "Nothing is repeated: position and record are one commit."
    forwards: ClassVar[bool] = True
    parts = (
        part("Topic", "provider topic"),
        part("Content", "content fields function"),
        part("Record", "key_from key keep_headers keep_timestamp"),
    )

    provider: str = declare("Provider", help="The cluster that has the topic.", is_needed=True)
    topic: str = declare(
        "Topic",
        help="Where the records are written; those of one key go to one partition.",
        is_needed=True,
        check=_topic,
    )
    content: str = declare(
        "What is written",
        AS_IT_IS,
        shape=Shape.CHOICE,
        help="As it is: the same bytes, whatever they are.",
        choices=(
            (AS_IT_IS, "The record as it is"),
            (BY_PATHS, "A JSON object of some fields"),
            (BY_FUNCTION, "What a Python function returns"),
        ),
    )
    fields: Mapping[str, str] = declare(
        "Fields",
        {},
        shape=Shape.PAIRS,
        help=f"One NAME = FIELD a line, for example number = {{$.order.number}}. Fields are "
        f"{FIELDS}, and {{payload}}, which is all of it. What a message does not have is null.",
        is_needed=True,
        only=("content", (BY_PATHS,)),
    )
    function: str = declare(
        "Function",
        help="The name it was registered under with @endpoint_function, by an app of "
        "SLUICE_INTEGRATIONS. It runs in the transaction of the message.",
        is_needed=True,
        only=("content", (BY_FUNCTION,)),
    )
    key_from: str = declare(
        "Key",
        OWN_KEY,
        shape=Shape.CHOICE,
        help="Without a key records are spread over the partitions, and have no order.",
        choices=(
            (OWN_KEY, "The record's own"),
            (NEW_KEY, "Made of fields"),
            (NO_KEY, "None"),
        ),
    )
    key: str = declare(
        "Fields of the key",
        shape=Shape.TEMPLATE,
        help=f"With {FIELDS}. A message without such a field is held.",
        is_needed=True,
        only=("key_from", (NEW_KEY,)),
    )
    keep_headers: bool = declare(
        "Keep the headers",
        True,
        shape=Shape.FLAG,
        help="Off: only the message's id and the forwards that it took.",
    )
    keep_timestamp: bool = declare(
        "Keep the timestamp",
        False,
        shape=Shape.FLAG,
        help="The record gets the time of the one it was made of; Kafka may refuse one that is "
        "too old for the topic. Off: the time when it is written.",
    )
