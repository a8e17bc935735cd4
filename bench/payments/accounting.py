"""Accounts for every payment: charged once in the table, told of once in the topic of notices."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from bench import traffic
from bench.rig import Rig
from payments import names

# In the line as numbers; each of them is nought, or something was promised that is not kept.
NOUGHT: Final = ("charged_twice", "not_charged", "notified_twice", "not_notified", "ended_twice")
_CHARGES: Final = "SELECT payment, count(*) FROM payments_charge GROUP BY payment"
# A message whose effects were committed twice, be it that the look-up has left nothing to be seen.
_ENDED_TWICE: Final = """
SELECT queue_id || ' ' || partition || ' ' || "offset" FROM integration_messagetrack
WHERE ended = 'APPLIED' GROUP BY queue_id, partition, "offset" HAVING count(*) > 1
"""


def account(rig: Rig, payments: frozenset[str]) -> dict[str, list[str]]:
    """Find what went wrong, by SQL and as a reader of committed records. Raises TimeoutError."""
    found = compare(payments, dict(rig.rows(_CHARGES)), noticed(rig.bootstrap))
    return found | {"ended_twice": [place for (place,) in rig.rows(_ENDED_TWICE)]}


def noticed(bootstrap: str) -> Counter[str]:
    """How often the topic tells of each payment."""
    topic = names.TOPICS[names.NOTICES]
    records = traffic.committed(bootstrap, topic, names.PARTITIONS)
    return Counter(str(json.loads(record.value())["payment"]) for record in records)


def compare(
    payments: frozenset[str], charges: Mapping[str, int], notices: Mapping[str, int]
) -> dict[str, list[str]]:
    """Compare what the store has asked for, how often each was charged and told of.

    A charge or a notice that nobody has asked for counts as twice: it has no other origin.
    """
    return {
        "charged_twice": _too_often(payments, charges),
        "not_charged": sorted(payments - charges.keys()),
        "notified_twice": _too_often(payments, notices),
        "not_notified": sorted(payments - notices.keys()),
    }


def _too_often(payments: frozenset[str], counts: Mapping[str, int]) -> list[str]:
    return sorted(each for each, count in counts.items() if count > 1 or each not in payments)


def reconciled(rig: Rig) -> dict[str, Any]:
    """What became of each record of the topic of requests, as the bulk job tells."""
    told = json.loads(rig.manage("bulk_reconcile", names.REQUESTS).splitlines()[-1])
    counts = {name: told[name] for name in ("read", "sent", "rejected", "skipped")}
    return {**counts, "fates": told["facts"]["fates"]}


def shortcomings(line: Mapping[str, Any]) -> list[str]:
    """Say what keeps this line from being a good one."""
    wrong = [f"{name} is {line[name]}" for name in NOUGHT if line[name]]
    wrong += [f"{count} {name} left over" for name, count in line["left_over"].items()]
    counts = line["reconciled"]
    if counts["rejected"] or counts["skipped"] or counts["read"] < line["by_kafka"]:
        wrong.append(f"reconciled as {counts['fates']}")
    if not line["kills"]:
        wrong.append("nothing was killed")
    return wrong
