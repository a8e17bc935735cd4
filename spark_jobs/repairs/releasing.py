"""Ends a run in one commit: its counts, and the operation that releases what was edited.

The operation has the run's own id: there can be no second one. It tells of every message that was
meant: those that wait for their release, and those that were left alone, each with the reason.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from psycopg.types.json import Jsonb

from spark_jobs.contract import SAMPLES
from spark_jobs.errors import not_staged
from spark_jobs.fencing import Outcome, Owned, apply
from spark_jobs.repairs.freezing import Plan, Tables
from spark_jobs.repairs.judging import Verdict
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.staging import Session

# Reasons beyond these are counted together: a schema may name something else in each message.
MOST_CAUSES: Final = 40
OTHERWISE: Final = "Other reasons."
TITLE_CHARACTERS: Final = 200
_KINDS: Final = "SELECT kind, count(*) FROM {outcomes} GROUP BY kind"
_CAUSES: Final = """
SELECT text, count(*) FROM {outcomes} WHERE kind IN ('MISFIT', 'REFUSED')
GROUP BY text ORDER BY 2 DESC, 1
"""
_SAMPLES: Final = "SELECT id FROM {outcomes} WHERE kind = 'EDITED' ORDER BY place LIMIT %s"
_QUEUES: Final = """
SELECT q.id, q.name FROM integration_queue q
WHERE q.id IN (SELECT queue FROM {outcomes} WHERE kind <> 'NOT_MEANT') ORDER BY q.id
"""
_ITEMS: Final = """
INSERT INTO integration_operationitem
  (operation_id, place, error_id, version, version_after, outcome, text, at)
SELECT %(run)s::uuid, row_number() OVER (ORDER BY place) - 1, id,
  version + CASE WHEN waits AND kind = 'EDITED' THEN 1 ELSE 0 END,
  CASE WHEN NOT waits AND kind = 'EDITED' THEN version + 1 END,
  CASE WHEN waits THEN '' WHEN kind = 'EDITED' THEN 'DONE' WHEN kind = 'SAME' THEN 'UNCHANGED'
    WHEN kind IN ('MISFIT', 'REFUSED') THEN 'INVALID' ELSE kind END,
  text, CASE WHEN waits THEN NULL ELSE clock_timestamp() END
FROM (
  SELECT *, %(release)s AND kind IN ('EDITED', 'SAME') AS waits
  FROM {outcomes} WHERE kind <> 'NOT_MEANT'
) o
"""
_OPERATION: Final = """
INSERT INTO integration_operation (id, verb, title, query, recipe, release_after_edit, late, actor,
  reason, state, why_paused, first_only, rate, stop_after, stop_share, stop_from, stop_base, total,
  handled, done, is_capped, queues, created_at, started_at, ended_at, version, owner, epoch)
VALUES (%(run)s, %(verb)s, %(title)s, %(query)s, %(recipe)s, false, %(late)s, %(actor)s,
  %(reason)s, %(state)s::text, '', false, %(rate)s, %(after)s, %(share)s, clock_timestamp(), 0,
  %(total)s, %(handled)s, %(done)s, false, %(queues)s, clock_timestamp(), clock_timestamp(),
  CASE WHEN %(state)s::text = 'DONE' THEN clock_timestamp() END, 1, '', 0)
"""
# As the audit has an operation that a person started.
_AUDIT: Final = """
INSERT INTO integration_configurationchange
  (at, actor, action, kind, subject, name, before, after, reason)
VALUES (clock_timestamp(), %(actor)s, 'change', 'operation', %(run)s, %(title)s,
  %(before)s, %(now)s, %(reason)s)
"""


def release(session: Session, owned: Owned, parameters: RepairParameters, plan: Plan) -> Outcome:
    """End the run: its counts and facts. Raises JobError NOT_STAGED, UNBALANCED, RUN_TAKEN."""
    tables = Tables(owned.run)
    with session.transaction():
        rows = session.execute(tables.sql(_KINDS))
        kinds = Counter({Verdict(kind): count for kind, count in rows})
        if kinds.total() != plan.messages:
            raise not_staged(f"{kinds.total():,} of {plan.messages:,} messages had their turn.")
        facts = _facts(session, tables, kinds, parameters)
        same, rejected = facts["unchanged"], facts["not_applicable"] + facts["invalid"]
        # What is right already is only released; else there is nothing to do with it.
        counts = {
            "read": kinds.total() - kinds[Verdict.NOT_MEANT],
            "sent": facts["edited"] + (same if parameters.release else 0),
            "rejected": rejected,
            "skipped": facts["changed_meanwhile"] + (0 if parameters.release else same),
        }
        if counts["read"]:
            _operate(session, owned, parameters, (counts, facts))
            facts["operation"] = owned.run
        # Last of all, so that nobody waits for the run's row meanwhile.
        apply(session, owned, (counts, facts))
        tables.drop(session)
    return counts, facts


def _facts(
    session: Session, tables: Tables, kinds: Counter[Verdict], parameters: RepairParameters
) -> dict[str, Any]:
    """Counts by what came of the messages, why not, and some that were edited; no payload."""
    edited, same = kinds[Verdict.EDITED], kinds[Verdict.SAME]
    moved = (Verdict.MOVED_ON, Verdict.WRONG_STATE, Verdict.GONE, Verdict.IN_WORK)
    samples = session.execute(tables.sql(_SAMPLES), [SAMPLES]).fetchall()
    return {
        "edited": edited,
        "unchanged": same,
        "not_applicable": kinds[Verdict.MISFIT],
        "invalid": kinds[Verdict.REFUSED],
        "changed_meanwhile": sum(kinds[verdict] for verdict in moved),
        "to_release": edited + same if parameters.release else 0,
        "causes": causes(session.execute(tables.sql(_CAUSES)).fetchall()),
        "samples": [str(id_) for (id_,) in samples],
    }


def causes(ranked: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Count why the change does not fit, the commonest first; rare ones are counted together."""
    first = [{"why": why, "messages": count} for why, count in ranked[:MOST_CAUSES]]
    rest = sum(count for _, count in ranked[MOST_CAUSES:])
    return [*first, {"why": OTHERWISE, "messages": rest}] if rest else first


def _operate(
    session: Session, owned: Owned, parameters: RepairParameters, outcome: Outcome
) -> None:
    """Make the operation, with an item for each message that was meant."""
    tables, (counts, facts) = Tables(owned.run), outcome
    queues = session.execute(tables.sql(_QUEUES)).fetchall()
    total, waiting = counts["read"], facts["to_release"]
    title = f"Repair {total:,} message{'' if total == 1 else 's'}"
    title += f" of {queues[0][1]}" if len(queues) == 1 else ""
    chosen = {
        "state": "RUNNING" if waiting else "DONE",
        "rate": parameters.rate,
        "late": parameters.late,
    }
    stop = {"stop_after": parameters.stop.after, "stop_share": parameters.stop.share}
    values = {
        **chosen,
        "run": owned.run,
        "verb": "release" if parameters.release else "edit",
        "title": title[:TITLE_CHARACTERS],
        "query": parameters.query,
        "recipe": parameters.recipe,
        "release": parameters.release,
        "actor": owned.actor,
        "reason": owned.reason,
        "after": parameters.stop.after,
        "share": parameters.stop.share,
        "total": total,
        "handled": total - waiting,
        "done": 0 if parameters.release else facts["edited"],
        "queues": [id_ for id_, _ in queues],
        "before": Jsonb({"state": "PLANNED"}),
        "now": Jsonb({name: value for name, value in {**chosen, **stop}.items() if value}),
    }
    session.execute(tables.sql(_ITEMS), values)
    session.execute(_OPERATION, values)
    session.execute(_AUDIT, values)
