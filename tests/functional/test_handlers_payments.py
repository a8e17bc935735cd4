"""The handler of payment requests, tested as its author would: without a broker."""

from decimal import Decimal
from typing import Any

import pytest

from integration.testing import Outcome, a_publish_channel, run_handler
from payments.models import Charge
from payments.names import NOTICE, REQUEST

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def channel() -> None:
    a_publish_channel(NOTICE, "store")


def asked(attempt: int = 1, **changes: Any) -> Outcome:
    sound = {"payment": "P-1", "amount": 12.5, "currency": "EUR", "card": "tok_4f9d01aa"}
    return run_handler(REQUEST, sound | changes, attempt=attempt)


def test_a_payment_is_charged_and_the_store_is_told() -> None:
    outcome = asked()
    assert outcome.is_applied
    charge = Charge.objects.get()
    assert (charge.payment, charge.amount, charge.currency) == ("P-1", Decimal("12.50"), "EUR")
    (notice,) = outcome.published
    assert (notice.system, notice.key) == ("store", b"P-1")
    assert notice.body == {
        "payment": "P-1",
        "amount": Decimal("12.5"),
        "currency": "EUR",
        "state": "charged",
    }


def test_a_payment_that_comes_under_another_message_id_is_charged_once() -> None:
    asked()
    repeat = asked()
    assert repeat.is_applied
    assert repeat.published == []
    assert Charge.objects.count() == 1


def test_a_repeat_that_costs_something_else_waits_for_a_person() -> None:
    asked()
    failure = asked(amount=99).failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("permanent", "PAYMENT_DIFFERS")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"payment": ""}, "FIELD_MISSING"),
        ({"payment": "P" * 41}, "PAYMENT_ID"),
        ({"amount": None}, "FIELD_MISSING"),
        ({"amount": 0}, "AMOUNT"),
        ({"amount": -3}, "AMOUNT"),
        ({"amount": "NaN"}, "AMOUNT"),
        ({"amount": 10**10}, "AMOUNT"),
        ({"amount": "0.005"}, "AMOUNT"),
        ({"amount": "a lot"}, "AMOUNT"),
        ({"currency": "EURO"}, "CURRENCY_UNKNOWN"),
        ({"card": "4111111111111111"}, "CARD_TOKEN"),
    ],
)
def test_what_a_person_has_to_correct_is_held(changes: dict[str, Any], code: str) -> None:
    failure = asked(**changes).failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("permanent", code)
    assert not Charge.objects.exists()


def test_a_card_number_is_not_told_to_whoever_may_not_see_payloads() -> None:
    failure = asked(card="4111111111111111").failure
    assert failure is not None
    assert "4111" not in failure.text


def test_a_bank_that_is_closing_is_asked_again() -> None:
    for attempt in (1, 2):
        failure = asked(attempt, bank="CLOSING").failure
        assert failure is not None
        assert (failure.kind, failure.code) == ("transient", "BANK_CLOSING")
        assert not Charge.objects.exists()
    assert asked(3, bank="CLOSING").is_applied
    assert Charge.objects.count() == 1
