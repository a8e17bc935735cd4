"""The stream of requests: mostly sound ones, some that fail, some that come twice."""

import uuid
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Final

from payments.requests import Sent, again, bad_card, closing, request

# Every so many requests something is particular, so that a person finds each kind within minutes.
PARTICULAR_EVERY: Final = 12


def stream(random: Random) -> Iterator[Sent]:
    """Yield requests without end; no two streams have a payment in common."""
    store = uuid.uuid4().hex[:8]
    makers = (closing, bad_card)
    for number in count(1):
        payment = f"P-{store}-{number:06}"
        turn, rest = divmod(number, PARTICULAR_EVERY)
        if rest:
            yield request(payment, random)
            continue
        kind = turn % (len(makers) + 1)
        if kind < len(makers):
            yield makers[kind](payment, random)
        else:
            # A buyer has pressed the button twice.
            first = request(payment, random)
            yield first
            yield again(first, as_other=turn % 2 == 0)
