"""The senders of the chaos run: idempotent ones, and transactions of which some are aborted."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from bench import traffic
from bench.chaos.plan import INBOUND, KEYED, LINE, SHARED, Plan, Sent
from bench.faults import sending

PLAIN_PER_SECOND: Final = {LINE: 12, KEYED: 48, SHARED: 48}
# Of both senders together about 40 messages a second.
TRANSACTIONS_EACH_SECONDS: Final = 0.4
MESSAGES: Final = (5, 11)
ABORTED: Final = 0.25
SETTLED_WITHIN_SECONDS: Final = 120.0
Report = Callable[[Any, Any], None]


class Fate(StrEnum):
    """What the sender knows of a message."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNSURE = "unsure"  # Kafka alone can tell


def _place(answered: Any) -> str:
    return f"{answered.partition()}@{answered.offset()}"


class Ledger:
    """Fates by (queue, seq); written by several senders.

    `told` is what was said last of a message: by which sender, and where Kafka has put it.
    What is told of a message in a transaction says both: what Kafka answered for the message
    and what it answered for the transaction.
    """

    def __init__(self) -> None:
        self.fates: dict[tuple[str, int], Fate] = {}
        self.told: dict[tuple[str, int], str] = {}
        self._turn = threading.Lock()

    def note(self, messages: Sequence[Sent], fate: Fate, told: str) -> None:
        with self._turn:
            self.fates.update({(sent.queue, sent.seq): fate for sent in messages})
            self.told.update({(sent.queue, sent.seq): told for sent in messages})

    def count(self, fate: Fate) -> int:
        return sum(each is fate for each in self.fates.values())


class Sender(sending.Sender):
    """One of the run's senders."""

    def __init__(self, name: str, bootstrap: str, plan: Plan, ledger: Ledger) -> None:
        super().__init__(name)
        self.bootstrap = bootstrap
        self.plan = plan
        self.ledger = ledger


class PlainSender(Sender):
    """An idempotent producer; also sends the objects that others wait for."""

    def work(self) -> None:
        self._producer = sending.Lasting(self.bootstrap)
        pace = [queue for queue, rate in PLAIN_PER_SECOND.items() for _ in range(rate)]
        random.Random(self.name).shuffle(pace)
        began, count = time.monotonic(), 0
        while not self.ending.is_set():
            self._send(self.plan.message(pace[count % len(pace)], self.name))
            self._bring()
            count += 1
            ahead = count / len(pace) - (time.monotonic() - began)
            self.ending.wait(max(ahead, 0))
        self._finish()

    def _finish(self) -> None:
        """Send what others wait for, until all of it is in Kafka."""
        deadline = time.monotonic() + SETTLED_WITHIN_SECONDS
        while time.monotonic() < deadline:
            brought = self._bring(all_of_them=True)
            if not self._producer.flush(10) and not brought:
                return
        self.failure = f"{self.name}: not every message was written"

    def _bring(self, *, all_of_them: bool = False) -> int:
        arrivals = self.plan.arrivals(self.name, all_of_them=all_of_them)
        for message, name in arrivals:
            self._send(message, name)
        return len(arrivals)

    def _send(self, message: Sent, brings: str | None = None) -> None:
        self._producer.put(**message.record, on_delivery=self._reported(message, brings))

    def _reported(self, message: Sent, brings: str | None) -> Report:
        def note(error: object, answered: Any) -> None:
            with contextlib.suppress(Exception):
                fate = Fate.COMMITTED if error is None else Fate.UNSURE
                told = _place(answered) if error is None else error
                self.ledger.note([message], fate, f"{self.name}: {told}")
                if error is not None and brings is not None:
                    self.plan.again(brings)

        return note


class Answers:
    """What Kafka answered for each message of one transaction."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, int], str] = {}

    def noted_for(self, message: Sent) -> Report:
        def note(error: object, answered: Any) -> None:
            with contextlib.suppress(Exception):
                told = _place(answered) if error is None else str(error)
                self._told[message.queue, message.seq] = told

        return note

    def told(self, message: Sent) -> str:
        return self._told.get((message.queue, message.seq), "no answer")


class TransactionalSender(Sender):
    """Commits some messages at a time, and aborts some of its transactions on purpose."""

    def work(self) -> None:
        self._chance = random.Random(self.name)
        self._producer = self._made()
        while not self.ending.wait(TRANSACTIONS_EACH_SECONDS):
            is_aborted = self._chance.random() < ABORTED
            count = self._chance.randint(*MESSAGES)
            messages = [
                self.plan.message(self._chance.choice(INBOUND), self.name, may_fail=not is_aborted)
                for _ in range(count)
            ]
            fate = Fate.ABORTED if is_aborted else Fate.UNSURE
            self.ledger.note(messages, fate, f"{self.name}: begun")
            try:
                self._settle(messages, is_aborted=is_aborted)
            except KafkaException as e:
                # The next one with the same id ends what this one has left, either way.
                self.ledger.note(messages, Fate.UNSURE, f"{self.name}: {e}")
                self._producer = self._made()

    def _settle(self, messages: Sequence[Sent], *, is_aborted: bool) -> None:
        answers = Answers()
        self._producer.begin_transaction()
        for message in messages:
            traffic.put(self._producer, **message.record, on_delivery=answers.noted_for(message))
        if is_aborted:
            # They are to lie in the topic: what was not sent would be aborted by nobody.
            self._producer.flush(5)
            self._until_answered(self._producer.abort_transaction)
        elif self._commit():
            self._producer.poll(0)
            for message in messages:
                told = f"{self.name}: {answers.told(message)}, committed"
                self.ledger.note([message], Fate.COMMITTED, told)

    def _commit(self) -> bool:
        """Return whether it is committed; aborted if Kafka wants that."""
        try:
            self._until_answered(self._producer.commit_transaction)
        except KafkaException as e:
            if not e.args[0].txn_requires_abort():
                raise
            self._until_answered(self._producer.abort_transaction)
            return False
        return True

    def _made(self) -> Producer:
        settings = {"transactional.id": f"chaos-{self.name}", "linger.ms": 5}
        producer = traffic.producer(self.bootstrap, **settings)
        self._until_answered(producer.init_transactions)
        return producer

    def _until_answered(self, call: Callable[[float], None]) -> None:
        """Call as long as Kafka has no answer. Raises KafkaException for any but that."""
        deadline = time.monotonic() + SETTLED_WITHIN_SECONDS
        while True:
            try:
                call(10.0)
                return
            except KafkaException as e:
                if not e.args[0].retriable() or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
