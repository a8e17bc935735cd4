"""What is known of each message that something went wrong with: for whoever looks for the cause."""

from typing import Any, Final

from psycopg.rows import dict_row

from bench.chaos import accounting
from bench.rig import Rig

MOST: Final = 50
_WRONG: Final = {
    "lost": accounting.LOST,
    "doubled": accounting.DOUBLED,
    "strangers": accounting.STRANGERS,
    "out of order": accounting.OUT_OF_ORDER,
    "open": "SELECT q.name AS queue, b.seq, e.* FROM integration_messageerror e "
    "JOIN integration_queue q ON q.id = e.queue_id LEFT JOIN chaos_book b ON b.queue = q.name "
    'AND b.partition = e.partition AND b."offset" = e."offset" '
    "WHERE e.state NOT IN ('RESOLVED', 'DELETED')",
}
_KNOWN: Final = {
    "effects": "SELECT f.*, f.xmin::text, pg_xact_commit_timestamp(f.xmin) AS committed_at "
    "FROM chaos_effect f WHERE queue = %(queue)s AND seq = %(seq)s",
    "failures": "SELECT e.* FROM integration_messageerror e JOIN integration_queue q "
    "ON q.id = e.queue_id JOIN chaos_book b ON b.queue = q.name AND b.partition = e.partition "
    'AND b."offset" = e."offset" WHERE b.queue = %(queue)s AND b.seq = %(seq)s',
    "tries": "SELECT a.* FROM integration_errorattempt a JOIN integration_messageerror e "
    "ON e.id = a.error_id JOIN integration_queue q ON q.id = e.queue_id "
    "JOIN chaos_book b ON b.queue = q.name AND b.partition = e.partition "
    'AND b."offset" = e."offset" WHERE b.queue = %(queue)s AND b.seq = %(seq)s ORDER BY a.id',
    "tracks": "SELECT t.* FROM integration_messagetrack t JOIN integration_queue q "
    "ON q.id = t.queue_id JOIN chaos_book b ON b.queue = q.name AND b.partition = t.partition "
    'AND b."offset" = t."offset" WHERE b.queue = %(queue)s AND b.seq = %(seq)s ORDER BY t.at',
}
_STATE: Final = {
    "queues": "SELECT * FROM integration_queue ORDER BY id",
    "partitions": "SELECT * FROM integration_queuepartition ORDER BY id",
    "leases": "SELECT * FROM integration_partitionlease",
    "relays": "SELECT * FROM integration_relaylease",
    "outbox": "SELECT * FROM integration_outboxrow WHERE state NOT IN ('PUBLISHED', 'CANCELLED')",
    "calls": "SELECT * FROM integration_delivery WHERE state IN ('SENDING', 'UNKNOWN')",
    "sessions": "SELECT * FROM pg_stat_activity WHERE datname = current_database()",
    "heartbeats": "SELECT * FROM crontasks_heartbeat",
    "notices": "SELECT * FROM crontasks_notice ORDER BY id",
    "restores": "SELECT r.*, f.* FROM integration_restore r "
    "LEFT JOIN integration_restorefinding f ON f.restore_id = r.id ORDER BY r.id",
}


def findings(rig: Rig) -> dict[str, Any]:
    """All that the database knows, the first of each kind."""
    wrong = {name: _dicts(rig, f"{sql} LIMIT {MOST}") for name, sql in _WRONG.items()}
    stories = [
        {name: _dicts(rig, sql, each) for name, sql in _KNOWN.items()}
        for rows in wrong.values()
        for each in rows
    ]
    state = {name: _dicts(rig, sql) for name, sql in _STATE.items()}
    return {"wrong": wrong, "stories": stories, "state": state}


def _dicts(rig: Rig, sql: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    with rig.session.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql, parameters).fetchall()
