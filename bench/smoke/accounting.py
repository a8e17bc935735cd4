"""Accounts in SQL for every message that was sent: ended once, and its effect written once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.rig import Rig

# The fate of each message that was sent, by its offset and by its own number.
_BOOK: Final = """
CREATE TABLE smoke_book AS
SELECT s.queue, s.seq,
  (SELECT count(*) FROM bench_effect e WHERE e.queue = s.queue AND e.seq = s.seq) AS effects,
  (SELECT count(*) FROM integration_messagetrack t JOIN integration_queue q ON q.id = t.queue_id
   WHERE q.name = s.queue AND t."offset" = s."offset"
     AND t.ended IN ('APPLIED', 'SUPERSEDED', 'DUPLICATE', 'DELETED', 'EXPIRED', 'PASSED')
  ) AS endings,
  (SELECT count(*) FROM integration_messageerror f JOIN integration_queue q ON q.id = f.queue_id
   WHERE q.name = s.queue AND f."offset" = s."offset" AND f.state = 'HOLD') AS held
FROM smoke_sent s
"""
_SUMS: Final = """
SELECT count(*),
  count(*) FILTER (WHERE held = 0 AND (effects = 0 OR endings = 0)),
  count(*) FILTER (WHERE effects > 1 OR endings > 1 OR held > 1 OR (held = 1 AND effects > 0)),
  (SELECT count(*) FROM integration_messageerror WHERE state = 'HOLD')
FROM smoke_book
"""
# Effects of messages nobody sent count as doubled: they have no other origin.
_STRANGE: Final = """
SELECT count(*) FROM bench_effect e
WHERE NOT EXISTS (SELECT 1 FROM smoke_sent s WHERE s.queue = e.queue AND s.seq = e.seq)
"""
_OUT_OF_ORDER: Final = """
SELECT count(*) FROM (
  SELECT seq, max(seq) OVER (ORDER BY written_at ROWS UNBOUNDED PRECEDING) AS highest
  FROM bench_effect WHERE queue = %s
) s WHERE seq < highest
"""


@dataclass(frozen=True, slots=True)
class Account:
    """The sums: all that was sent, and what went wrong with it."""

    sent: int
    lost: int
    doubled: int
    held: int
    out_of_order: int


def remember(rig: Rig, offsets: Mapping[tuple[str, int], int]) -> None:
    """Store what was sent, and where it lies."""
    rig.write(
        'CREATE TABLE smoke_sent (queue text, seq bigint, "offset" bigint, '
        "PRIMARY KEY (queue, seq))"
    )
    columns = [
        [queue for queue, _ in offsets],
        [seq for _, seq in offsets],
        list(offsets.values()),
    ]
    rig.write(
        "INSERT INTO smoke_sent SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[])",
        columns,
    )
    rig.write('CREATE INDEX ON integration_messagetrack (queue_id, "offset")')
    rig.write("CREATE INDEX ON bench_effect (queue, seq)")


def account(rig: Rig, strict_queue: str) -> Account:
    """Sum up. `strict_queue` is the one whose effects must stand in the order of sending."""
    rig.write(_BOOK)
    sent, lost, doubled, held = rig.rows(_SUMS)[0]
    strange = int(rig.value(_STRANGE))
    return Account(
        sent, lost, doubled + strange, held, int(rig.value(_OUT_OF_ORDER, [strict_queue]))
    )
