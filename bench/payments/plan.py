"""The plan of the payment run: which payments the store asks for, by which door, and how often."""

from dataclasses import dataclass
from random import Random
from typing import Final

from payments.requests import Sent, again, closing, request

# Of so many payments, by chance, one meets a bank that is closing, and one is asked for again.
CLOSING_EACH: Final = 100
AGAIN_EACH: Final = 20
# A repeat comes so many payments later, at the most.
LATER: Final = 400


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes by Kafka and what by JMS, each in its order."""

    payments: frozenset[str]
    by_kafka: tuple[Sent, ...]
    by_jms: tuple[Sent, ...]

    @property
    def requests(self) -> int:
        return len(self.by_kafka) + len(self.by_jms)

    @property
    def repeats(self) -> int:
        return self.requests - len(self.payments)


def planned(count: int, seed: str) -> Plan:
    """Half of the payments go by each door.

    A repeat is one of three: sent again as it was; by the same door under another message id; by
    the other door.
    """
    random = Random(f"payments {seed}")
    placed: dict[bool, list[tuple[int, Sent]]] = {False: [], True: []}
    for number in range(count):
        make = closing if random.randrange(CLOSING_EACH) == 0 else request
        sent, is_by_jms = make(f"P-{number:06}", random), number % 2 == 1
        placed[is_by_jms].append((number, sent))
        if random.randrange(AGAIN_EACH) == 0:
            as_other, by_other_door = random.choice(((False, False), (True, False), (False, True)))
            place = number + random.randint(0, LATER)
            placed[is_by_jms != by_other_door].append((place, again(sent, as_other=as_other)))
    payments = frozenset(sent.payment for door in placed.values() for _, sent in door)
    return Plan(payments, _in_order(placed[False]), _in_order(placed[True]))


def _in_order(placed: list[tuple[int, Sent]]) -> tuple[Sent, ...]:
    return tuple(sent for _, sent in sorted(placed, key=lambda each: each[0]))
