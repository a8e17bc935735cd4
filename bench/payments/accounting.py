"""Accounts for every payment: charged once in the table, told of once in the topic of notices."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench import traffic
from bench.rig import Rig
from payments import names

_CHARGES: Final = "SELECT payment, count(*) FROM payments_charge GROUP BY payment"
# A message whose effects were committed twice, be it that the look-up has left nothing to be seen.
_ENDED_TWICE: Final = """
SELECT count(*) FROM (
  SELECT 1 FROM integration_messagetrack WHERE ended IN ('APPLIED', 'DUPLICATE')
  GROUP BY queue_id, partition, "offset" HAVING count(*) > 1
) twice
"""


@dataclass(frozen=True, slots=True)
class Account:
    """What went wrong: numbers of payments, and of messages that ended twice."""

    charged_twice: int
    not_charged: int
    notified_twice: int
    not_notified: int
    ended_twice: int

    @property
    def is_right(self) -> bool:
        wrong = self.charged_twice + self.not_charged + self.notified_twice + self.not_notified
        return not wrong and not self.ended_twice


def account(rig: Rig, payments: frozenset[str]) -> Account:
    """Count in SQL, and in the topic as a reader of committed records. Raises TimeoutError."""
    charges = dict(rig.rows(_CHARGES))
    return compare(payments, charges, noticed(rig.bootstrap), int(rig.value(_ENDED_TWICE)))


def noticed(bootstrap: str) -> Counter[str]:
    """How often the topic tells of each payment."""
    topic = names.TOPICS[names.NOTICES]
    records = traffic.committed(bootstrap, topic, names.PARTITIONS)
    return Counter(_payment(record) for record in records)


def compare(
    payments: frozenset[str],
    charges: Mapping[str, int],
    notices: Mapping[str, int],
    ended_twice: int,
) -> Account:
    """Compare what the store has asked for, how often each was charged and told of.

    A charge or a notice that nobody has asked for counts as twice: it has no other origin.
    """
    return Account(
        charged_twice=_too_many(payments, charges),
        not_charged=len(payments - charges.keys()),
        notified_twice=_too_many(payments, notices),
        not_notified=len(payments - notices.keys()),
        ended_twice=ended_twice,
    )


def _too_many(payments: frozenset[str], counts: Mapping[str, int]) -> int:
    return sum(count > 1 or payment not in payments for payment, count in counts.items())


def _payment(record: Any) -> str:
    return (record.key() or b"").decode()
