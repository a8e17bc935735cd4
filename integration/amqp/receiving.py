"""Receives messages over a link of an AMQP connection, and accepts them in transactions.

An accept that is only sent may be lost with the connection, and nobody would tell. The end of a
transaction is answered once the broker has it on disk: from then on it sends them to nobody again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proton import Delivery, Described, Link, Message, Terminus, symbol, ulong

from integration.amqp.connection import AmqpConnection, EndedError, has_address
from integration.amqp.incoming import Incoming, Received, TooLargeError

# More than this is not taken out of the engine at once, whatever the messages' sizes.
TAKEN_BYTES: Final = 16 * 2**20
WRITE_SECONDS: Final = 5.0
SELECTOR: Final = symbol("apache.org:selector-filter:string")
LOCAL_TRANSACTIONS: Final = symbol("amqp:local-transactions")
DECLARE: Final = symbol("amqp:declare:list")
DISCHARGE: Final = symbol("amqp:discharge:list")
# AMQP 1.0, part 4: the states of a declared transaction and of a delivery in one.
DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34
ACCEPTED: Final = ulong(0x24)
ROLLED_BACK: Final = "amqp:transaction:rollback"


@dataclass(frozen=True, slots=True)
class Address:
    """A JMS queue, or a topic read by the durable subscription of that name.

    `selector` is a JMS selector that messages must meet, empty for all.
    """

    name: str
    subscription: str = ""
    selector: str = ""

    @property
    def kind(self) -> str:
        return "topic" if self.subscription else "queue"


class ReceivingLink:
    """A link from one address, on a connection of its own. One thread at a time may use it."""

    def __init__(
        self, connection: AmqpConnection, address: Address, *, credit: int, seconds: float
    ) -> None:
        """Open it, for at most `credit` messages under way. Raises TimeoutError, EndedError."""
        self._connection = connection
        self._credit = credit
        self._has_met_end = False
        self._link = self._receiver(address)
        self._incoming = Incoming(self._link)
        connection.open(self._link, seconds)
        if not has_address(self._link.remote_source):
            # It raises what the broker gives as its reason.
            connection.until(lambda: False, seconds)
        self._transactions = _Transactions(connection, seconds)
        self._link.flow(credit)

    def _receiver(self, address: Address) -> Any:
        link = self._connection.session.receiver(address.subscription or f"sluice-{address.name}")
        link.source.address = link.target.address = address.name
        link.source.capabilities.put_object(symbol(address.kind))
        link.snd_settle_mode = Link.SND_UNSETTLED
        if address.subscription:
            link.source.durability = Terminus.DELIVERIES
            link.source.expiry_policy = Terminus.EXPIRE_NEVER
        choose(link, address.selector)
        return link

    def take(self, limit: int, seconds: float) -> list[Received]:
        """Take at most `limit` messages, waiting up to `seconds` for the first.

        Raises EndedError, TooLargeError where there is none before such a one.
        """
        taken: list[Received] = []
        size = 0
        try:
            for received in self._come(seconds if limit > 0 else 0.0):
                taken.append(received)
                size += len(received.data)
                if len(taken) >= limit or size > TAKEN_BYTES:
                    break
        except TooLargeError:
            if not taken:
                raise
        if taken:
            self._link.flow(len(taken))
            self._connection.write(WRITE_SECONDS)
        return taken

    def is_at_end(self, seconds: float) -> bool:
        """Return whether the broker has no more now; asked of it the first time. Raises EndedError.

        To be asked when `take` has found nothing. What it sends later it sends by itself.
        """
        if self._has_met_end:
            return True
        self._link.drain(0)
        try:
            self._connection.until(lambda: self._link.credit == 0 or self._has_one, seconds)
        except TimeoutError:
            return False
        self._has_met_end = not self._has_one
        self._link.drain_mode = False
        self._link.flow(self._credit - self._link.credit)
        return self._has_met_end

    def accept(self, deliveries: Sequence[Any], seconds: float) -> "Transaction":
        """Accept them in one transaction; `hear` tells when it has ended well.

        Raises TimeoutError, EndedError.
        """
        return self._transactions.accept(deliveries, seconds)

    def hear(self, seconds: float = 0.0) -> None:
        """Take in and send what there is; with `seconds` until no transaction is under way.

        Raises EndedError, also when the broker has rolled one back.
        """
        self._transactions.hear(seconds)

    def close(self) -> None:
        """End the connection: what was not accepted is the next receiver's."""
        self._connection.close()

    @property
    def _has_one(self) -> bool:
        return self._incoming.has_one

    def _come(self, seconds: float) -> Iterator[Received]:
        """Whole messages that are there, waiting for the first. Raises EndedError."""
        self._connection.hear()
        if not self._has_one:
            try:
                self._connection.until(lambda: self._has_one, seconds)
            except TimeoutError:
                return
        while True:
            received = self._incoming.next()
            if received is not None:
                yield received
            elif not self._has_one:
                return
            else:
                # A large one comes in pieces; there is room for the next once these are read.
                try:
                    self._connection.until(lambda: self._incoming.has_more, seconds or 0.1)
                except TimeoutError:
                    return


def choose(link: Any, selector: str) -> None:
    """Ask a link that is not open yet for those messages alone that meet a JMS selector."""
    if selector:
        link.source.filter.put_object({symbol("jms-selector"): Described(SELECTOR, selector)})


class Transaction:
    """One that is under way: `is_over` once the broker has committed it."""

    def __init__(self, discharge: Any) -> None:
        self._discharge = discharge
        self.is_over = False

    def look(self) -> None:
        """Raises EndedError when the broker has rolled it back."""
        state = self._discharge.remote_state
        if state == Delivery.ACCEPTED:
            self.is_over = True
            self._discharge.settle()
        elif state == Delivery.REJECTED:
            raise EndedError(ROLLED_BACK, "the broker has rolled back what was accepted")


class _Transactions:
    """The coordinator of a session's transactions; the next one is always declared ahead."""

    def __init__(self, connection: AmqpConnection, seconds: float) -> None:
        """Raises TimeoutError, EndedError."""
        self._connection = connection
        self._tags = 0
        self._under_way: list[Transaction] = []
        self._coordinator = connection.session.sender("sluice-transactions")
        self._coordinator.target.type = Terminus.COORDINATOR
        self._coordinator.target.capabilities.put_object(LOCAL_TRANSACTIONS)
        connection.open(self._coordinator, seconds)
        connection.until(lambda: self._coordinator.credit > 0, seconds)
        self._declared = self._order(DECLARE, [None])

    def accept(self, deliveries: Sequence[Any], seconds: float) -> Transaction:
        declared = self._declared
        self._connection.until(lambda: declared.remote_state != 0, seconds)
        known = declared.remote.data
        if declared.remote_state != DECLARED or not known:
            raise EndedError("", "the broker declared no transaction")
        declared.settle()
        accepted = [known[0], Described(ACCEPTED, [])]
        for delivery in deliveries:
            delivery.local.data = accepted
            delivery.update(TRANSACTIONAL)
            delivery.settle()
        self._connection.until(lambda: self._coordinator.credit > 1, seconds)
        transaction = Transaction(self._order(DISCHARGE, [known[0], False]))
        self._declared = self._order(DECLARE, [None])
        self._under_way.append(transaction)
        self._connection.write(seconds)
        return transaction

    def hear(self, seconds: float) -> None:
        self._connection.hear()
        try:
            self._connection.until(self._is_over, seconds)
        except TimeoutError:
            return

    def _is_over(self) -> bool:
        for transaction in self._under_way:
            transaction.look()
        self._under_way = [one for one in self._under_way if not one.is_over]
        return not self._under_way

    def _order(self, what: symbol, values: list[Any]) -> Any:
        self._tags += 1
        delivery = self._coordinator.delivery(str(self._tags))
        self._coordinator.stream(Message(body=Described(what, values)).encode())
        self._coordinator.advance()
        return delivery
