"""The requests that the store makes: sound ones, and those that fail or come twice."""

import json
import uuid
from random import Random
from typing import Any, Final, NamedTuple

from integration.values import Headers
from payments import names

PRICES: Final = (4.99, 12.5, 20, 79.9, 149)
HEADERS: Final[Headers] = (
    ("sluice-interface", names.REQUEST.encode()),
    ("sluice-sender", names.SYSTEM.encode()),
)


class Sent(NamedTuple):
    """One request. `why` says what is particular about it; empty when nothing is."""

    payment: str
    message_id: str
    value: bytes
    why: str = ""

    @property
    def headers(self) -> Headers:
        return [*HEADERS, ("sluice-message-id", self.message_id.encode())]


def request(payment: str, random: Random, why: str = "", **changes: Any) -> Sent:
    """A request to charge; its message id is the payment's, so that a repeat is known by it."""
    fields = {
        "payment": payment,
        "amount": random.choice(PRICES),
        "currency": random.choice(("EUR", "GBP", "USD")),
        "card": f"tok_{random.randrange(16**12):012x}",
        **changes,
    }
    return Sent(payment, payment, json.dumps(fields).encode(), why)


def closing(payment: str, random: Random) -> Sent:
    return request(payment, random, "transient: the bank is closing", bank="CLOSING")


def bad_card(payment: str, random: Random) -> Sent:
    return request(payment, random, "permanent: no card token", card="4111")


def again(sent: Sent, *, as_other: bool) -> Sent:
    """The same request once more, under its own message id or, as a JMS client would, another."""
    message_id = str(uuid.uuid4()) if as_other else sent.message_id
    return sent._replace(message_id=message_id, why="repeat")
