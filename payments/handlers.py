"""The handler of payment requests: it charges each payment once and publishes a notice of it."""

import re
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from integration.handlers import Message, PermanentError, TransientError, inbound, publish
from integration.handlers.sql import cursor
from payments.models import Charge
from payments.names import NOTICE, REQUEST
from sample.reading import Fields, fields_of, need

CURRENCIES: Final = ("EUR", "GBP", "USD")
CARD_TOKEN: Final = re.compile(r"tok_[A-Za-z0-9]{8,40}")
LONGEST_ID: Final = 40
MOST: Final = Decimal(10) ** 10
# The bank closes its day for some seconds at a time; a later try finds it open.
CLOSING: Final = "CLOSING"
TRIES_WHILE_CLOSING: Final = 2
# Whoever asks about a payment first holds its turn until the commit. With a unique constraint on
# the payment id, as in production, the lock would not be needed.
TAKE_TURN: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


class Wanted(NamedTuple):
    """What the store asks for."""

    payment: str
    amount: Decimal
    currency: str


@inbound(REQUEST)
def charge(message: Message) -> None:
    """Charge a payment, unless it was charged before, and publish a notice: both or neither.

    The queue drops a request that comes again under its message id. The look-up is for what no
    queue can know: the same payment under another message id, or by another queue.
    """
    fields = fields_of(message)
    wanted = _wanted(fields)
    if message.attempt <= TRIES_WHILE_CLOSING and fields.get("bank") == CLOSING:
        raise TransientError("The bank is closing its day.", code="BANK_CLOSING")
    cursor().execute(TAKE_TURN, [wanted.payment])
    earlier = Charge.objects.filter(payment=wanted.payment).first()
    if earlier is not None:
        _compare(earlier, wanted)
        return
    Charge.objects.create(**wanted._asdict())
    publish(NOTICE, {**wanted._asdict(), "state": "charged"}, key=wanted.payment)


def _wanted(fields: Fields) -> Wanted:
    """Raises PermanentError, which holds the request until a person has corrected it."""
    payment = str(need(fields, "payment"))
    if len(payment) > LONGEST_ID:
        raise PermanentError(f"payment has more than {LONGEST_ID} characters.", code="PAYMENT_ID")
    currency = str(need(fields, "currency"))
    if currency not in CURRENCIES:
        known = ", ".join(CURRENCIES)
        raise PermanentError(f"currency is none of {known}.", code="CURRENCY_UNKNOWN")
    if not CARD_TOKEN.fullmatch(str(need(fields, "card"))):
        # The token itself is nobody's business here.
        raise PermanentError(
            "card is no token of the bank: tok_ and at least eight letters or digits.",
            code="CARD_TOKEN",
        )
    return Wanted(payment, _amount(fields), currency)


def _amount(fields: Fields) -> Decimal:
    """Raises PermanentError."""
    try:
        amount = Decimal(str(need(fields, "amount")))
    except InvalidOperation:
        raise PermanentError("amount is not a number.", code="AMOUNT") from None
    if not amount.is_finite() or not 0 < amount < MOST or amount != round(amount, 2):
        raise PermanentError(
            "amount is to be above 0, with two decimal places at most.", code="AMOUNT"
        )
    return amount


def _compare(earlier: Charge, wanted: Wanted) -> None:
    """Raises PermanentError where the same payment is to cost something else now."""
    if (earlier.amount, earlier.currency) != (wanted.amount, wanted.currency):
        raise PermanentError(
            "This payment was charged already, with another amount or currency.",
            code="PAYMENT_DIFFERS",
        )
