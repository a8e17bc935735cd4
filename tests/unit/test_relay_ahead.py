"""Whether Kafka is ahead of the database: decided by a batch's identity, never by numbers."""

from uuid import UUID

import pytest

from integration.delivery.relay.policy import is_ahead

pytestmark = pytest.mark.fast
ONE, TWO = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("watermark", "known", "stamped", "ahead"),
    [
        (None, str(ONE), None, False),  # Kafka has forgotten: another question
        ("", str(ONE), None, False),  # the id begins anew
        (str(ONE), str(ONE), TWO, False),  # the stamped batch did not get there
        (str(TWO), str(ONE), TWO, False),  # it did
        (str(TWO), str(ONE), None, True),
        (str(TWO), "", None, True),  # nothing was sent when the backup was made
        (str(TWO), None, None, False),  # never noted: from before it was
    ],
)
def test_ahead_is_a_batch_that_the_database_never_sent(watermark, known, stamped, ahead):
    assert is_ahead(watermark, known=known, stamped=stamped) is ahead
