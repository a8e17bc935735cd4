"""The plan of the payment run: which payments the store asks for, by which door, and how often."""

from dataclasses import dataclass
from random import Random
from typing import Final

from payments.requests import Sent, again, closing, request

# One payment in so many …
BY_JMS_EACH: Final = 10
CLOSING_EACH: Final = 100
AGAIN_EACH: Final = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes by Kafka and what by JMS, each in its order."""

    payments: frozenset[str]
    by_kafka: tuple[Sent, ...]
    by_jms: tuple[Sent, ...]

    @property
    def messages(self) -> int:
        return len(self.by_kafka) + len(self.by_jms)

    @property
    def repeats(self) -> int:
        return self.messages - len(self.payments)


def planned(count: int, *, with_jms: bool) -> Plan:
    """Some meet a bank that is closing and succeed later; some are asked for twice.

    Of those that come again, half have their message id and half another one; where there is a JMS
    broker, the latter come by the other door.
    """
    random = Random(count)
    doors: dict[bool, list[Sent]] = {False: [], True: []}
    for number in range(count):
        make = closing if number % CLOSING_EACH == 7 else request
        sent = make(f"P-{number:06}", random)
        is_by_jms = with_jms and number % BY_JMS_EACH == 3
        doors[is_by_jms].append(sent)
        turn, rest = divmod(number, AGAIN_EACH)
        if rest == 13:
            as_other = turn % 2 == 0
            doors[with_jms and is_by_jms != as_other].append(again(sent, as_other=as_other))
    payments = frozenset(sent.payment for door in doors.values() for sent in door)
    return Plan(payments, tuple(doors[False]), tuple(doors[True]))
