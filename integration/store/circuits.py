"""The state of endpoints in SQL, shared by all runs; compare-and-set, by the database's clock."""

from typing import Any, Final

import psycopg
from django.db import DatabaseError, InterfaceError

from integration.delivery.ports import LostError
from integration.delivery.sending.ports import EndpointStatus
from integration.policy.circuit import Circuit, Move, most_together
from integration.policy.states import CircuitState
from integration.store import rows
from integration.store.sessions import django_connection

AHEAD_SECONDS: Final = 0.2
MAKE: Final = """
INSERT INTO integration_endpointcircuit (endpoint_id, state, version, failures, probes, code, text)
SELECT id, 'CLOSED', 0, 0, 0, '', '' FROM integration_endpoint WHERE id = %s
ON CONFLICT (endpoint_id) DO NOTHING
"""
LOOK: Final = """
SELECT c.state, c.failures, c.probes, c.version,
  extract(epoch FROM c.resume_at - clock_timestamp())::float8, c.text, e.enabled, s.enabled,
  extract(epoch FROM e.paused_until - clock_timestamp())::float8
FROM integration_endpointcircuit c JOIN integration_endpoint e ON e.id = c.endpoint_id
JOIN integration_externalsystem s ON s.id = e.system_id WHERE c.endpoint_id = %s
"""
PROBE: Final = """
UPDATE integration_endpointcircuit SET state = 'HALF_OPEN', version = version + 1,
  resume_at = clock_timestamp() + %s * interval '1 second', changed_at = clock_timestamp()
WHERE endpoint_id = %s AND version = %s AND state <> 'CLOSED'
  AND coalesce(resume_at <= clock_timestamp(), true) RETURNING version
"""
MOVE: Final = """
UPDATE integration_endpointcircuit SET version = version + 1, failures = %(failures)s,
  probes = %(probes)s, code = %(code)s, text = %(text)s,
  opened_at = CASE WHEN %(state)s = 'CLOSED' THEN NULL
    WHEN state = 'CLOSED' THEN clock_timestamp() ELSE opened_at END,
  changed_at = CASE WHEN state = %(state)s THEN changed_at ELSE clock_timestamp() END,
  resume_at = clock_timestamp() + %(pause)s * interval '1 second', state = %(state)s
WHERE endpoint_id = %(endpoint)s AND version = %(version)s RETURNING version
"""
# A slot further ahead than this rate ever puts one, for as many as may go together, was taken under
# a slower one, which a person has raised since: nobody waits for it.
SLOTS: Final = """
UPDATE integration_endpointcircuit
SET next_slot_at = CASE WHEN next_slot_at <= clock_timestamp() + %(ahead)s * interval '1 second'
  THEN greatest(next_slot_at, clock_timestamp()) ELSE clock_timestamp() END
  + %(taken)s * interval '1 second'
WHERE endpoint_id = %(endpoint)s
  AND coalesce(next_slot_at <= clock_timestamp() + %(ahead)s * interval '1 second'
    OR next_slot_at > clock_timestamp() + (%(most)s + 2 * %(ahead)s) * interval '1 second', true)
RETURNING 0
"""
NEXT_SLOT: Final = (
    "SELECT extract(epoch FROM next_slot_at - clock_timestamp())::float8 "
    "FROM integration_endpointcircuit WHERE endpoint_id = %s"
)


class DatabaseCircuits:
    """See sending.ports.Circuits. Each call is a statement of its own."""

    def look(self, endpoint: int) -> EndpointStatus:
        row = self._first(LOOK, [endpoint])
        if row is None:
            self._first(MAKE, [endpoint])
            row = self._first(LOOK, [endpoint])
        if row is None:
            return EndpointStatus(circuit=Circuit(), version=0, enabled=False)
        state, failures, probes, version, resume, text, enabled, system, paused = row
        return EndpointStatus(
            circuit=Circuit(state=CircuitState(state), failures=failures, probes=probes),
            version=version,
            resume_seconds=resume,
            text=text,
            enabled=enabled,
            system_enabled=system,
            paused_seconds=paused,
        )

    def probe(self, endpoint: int, version: int, seconds: float) -> int | None:
        row = self._first(PROBE, [seconds, endpoint, version])
        return None if row is None else int(row[0])

    def move(self, endpoint: int, version: int, move: Move, code: str, text: str) -> int | None:
        is_closed = move.circuit.state is CircuitState.CLOSED
        if is_closed and not move.circuit.failures:
            code = text = ""
        values = {
            "endpoint": endpoint,
            "version": version,
            "state": move.circuit.state,
            "failures": move.circuit.failures,
            "probes": move.circuit.probes,
            "pause": move.pause_seconds,
            "code": rows.plain(code, 60),
            "text": rows.plain(text),
        }
        row = self._first(MOVE, values)
        return None if row is None else int(row[0])

    def slots(self, endpoint: int, count: int, per_second: float) -> float:
        # What is granted ahead of its time is short of a blink, and evens out at once.
        ahead = min(AHEAD_SECONDS, 1 / per_second) / 2
        parameters = {
            "endpoint": endpoint,
            "taken": count / per_second,
            "most": most_together(per_second) / per_second,
            "ahead": ahead,
        }
        if self._first(SLOTS, parameters) is not None:
            return 0.0
        row = self._first(NEXT_SLOT, [endpoint])
        left = 0.0 if row is None or row[0] is None else float(row[0])
        return max(left - ahead, 0.001)

    def _first(self, sql: str, parameters: Any) -> tuple[Any, ...] | None:
        try:
            with django_connection().cursor() as cursor:
                cursor.execute(sql, parameters)
                return cursor.fetchone() if cursor.description else None
        except (DatabaseError, InterfaceError, psycopg.Error) as e:
            raise LostError(str(e).strip()) from e
