"""The log of transactions as a table, on a database session of its own.

Kafka and the database cannot commit together, so the order of the two is what counts:

- *Messages first, then the row.* Whoever dies between them has left messages in the side topic
  that nobody looks for. The other way round there would be a branch without messages.
- *The row says DELIVERING, then Kafka commits, then the row goes.* Kafka's transaction carries a
  record that says so in the side topic. Behind a fence it is there, or it will never be: a branch
  that was being delivered when somebody died is thereby known to be delivered, or not.
"""

import threading
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from integration.kafka.slots import Slot, SlotLostError
from integration.policy.states import BranchState
from integration.store.sessions import Session, raw_connection
from integration.xa.branch import Branch, Place
from integration.xa.errors import XaDuplicateError, XaUnavailableError
from integration.xa.side_topic import SideTopic
from integration.xa.stalled import Stalls
from integration.xa.steps import XaObserver, XaStep, unobserved
from integration.xa.xid import Xid

# A prepared branch as well: in a database that was restored it stands where it stood then.
_MAY_BE_OUT: Final = {BranchState.DELIVERING, BranchState.PREPARED}
_INSERT: Final = """
INSERT INTO integration_xabranch (mark, factory_id, xid, state, owner, side_partition,
  first_offset, last_offset, messages, started_at)
VALUES (%s, %s, %s, 'STARTED', %s, %s, %s, %s, %s, clock_timestamp())
ON CONFLICT (factory_id, xid) DO NOTHING RETURNING started_at"""
_ROWS: Final = "SELECT * FROM integration_xabranch WHERE factory_id = %s"
_MOVE: Final = "UPDATE integration_xabranch SET state = %s WHERE mark = %s AND state = %s"
_REMOVE: Final = "DELETE FROM integration_xabranch WHERE mark = %s AND state = %s"
_BEGIN: Final = """
UPDATE integration_xabranch SET state = 'DELIVERING', before = state, outcome = %s, attempt = %s
WHERE mark = %s AND state = %s"""
_TAKE_BACK: Final = """
UPDATE integration_xabranch SET state = before, before = '', outcome = '', attempt = ''
WHERE mark = %s AND attempt = %s AND state = 'DELIVERING'"""
_REMOVE_DELIVERED: Final = """
DELETE FROM integration_xabranch
WHERE mark = %s AND attempt = %s AND state = 'DELIVERING' AND outcome = ''"""
_MOVE_DELIVERED: Final = """
UPDATE integration_xabranch SET state = outcome, before = '', outcome = '', attempt = ''
WHERE mark = %s AND attempt = %s AND state = 'DELIVERING' AND outcome <> ''"""


class DatabaseLog:
    """Implements integration.xa.ports.TransactionLog. Safe for several threads."""

    def __init__(self, name: str, factory_id: int, side: SideTopic, stalls: Stalls) -> None:
        self._name, self._factory_id = name, factory_id
        self._side, self._stalls = side, stalls
        self.observer: XaObserver = unobserved
        self._session: Session | None = None
        self._turn = threading.Lock()

    def check(self) -> None:
        self._rows("SELECT 1 AS one", ())

    def branches(self) -> list[Branch]:
        rows = self._rows(f"{_ROWS} ORDER BY started_at", (self._factory_id,))
        return [_branch(row) for row in rows]

    def find(self, xid: Xid) -> Branch | None:
        row = self._row(xid)
        return None if row is None else _branch(row)

    def find_fenced(self, xid: Xid) -> Branch | None:
        while True:
            row = self._row(xid)
            if row is None or row["state"] not in _MAY_BE_OUT:
                return None if row is None else _branch(row)
            # Whoever was delivering is shut out, so it is known how far it came. Somebody else may
            # have looked since and begun anew: only what this look was about is changed.
            if self._stalls.through(partial(self._side.is_delivered, _branch(row))):
                self._delivered(row["mark"], row["attempt"])
                self._change(_REMOVE, (row["mark"], BranchState.PREPARED))
            elif row["state"] == BranchState.PREPARED:
                return _branch(row)
            else:
                self._change(_TAKE_BACK, (row["mark"], row["attempt"]))

    def open(self, slot: Slot, xid: Xid, mark: str, write: Callable[[], Place]) -> Branch:
        if self.find(xid) is not None:
            raise XaDuplicateError(xid)
        with slot.transaction():
            place = write()
        values = place.partition, place.first, place.last, place.count
        rows = self._rows(_INSERT, (mark, self._factory_id, str(xid), slot.id, *values))
        if not rows:
            raise XaDuplicateError(xid)
        return Branch(
            xid=xid,
            state=BranchState.STARTED,
            owner=slot.id,
            mark=mark,
            place=place,
            started_at=rows[0]["started_at"],
        )

    def prepare(self, slot: Slot, branch: Branch) -> Branch:  # noqa: ARG002 - Kafka has no part in it
        self._expect(_MOVE, (BranchState.PREPARED, branch.mark, branch.state))
        return branch.becoming(BranchState.PREPARED)

    def finish(
        self,
        slot: Slot,
        branch: Branch,
        deliver: Callable[[], None] | None = None,
        becomes: BranchState | None = None,
    ) -> None:
        if deliver is None and becomes is None:
            self._expect(_REMOVE, (branch.mark, branch.state))
        elif deliver is None:
            self._expect(_MOVE, (becomes, branch.mark, branch.state))
        else:
            attempt = uuid.uuid4().hex
            self._expect(_BEGIN, (becomes or "", attempt, branch.mark, branch.state))
            self.observer(XaStep.MARKED)
            with slot.transaction():
                deliver()
                self._side.tell_delivered(branch, slot)
            self.observer(XaStep.DELIVERED)
            # Where somebody has looked meanwhile, it is done already.
            self._delivered(branch.mark, attempt)

    def close(self) -> None:
        with self._turn:
            self._drop()

    def _delivered(self, mark: str, attempt: str) -> None:
        self._change(_REMOVE_DELIVERED, (mark, attempt))
        self._change(_MOVE_DELIVERED, (mark, attempt))

    def _row(self, xid: Xid) -> dict[str, Any] | None:
        rows = self._rows(f"{_ROWS} AND xid = %s", (self._factory_id, str(xid)))
        return rows[0] if rows else None

    def _expect(self, sql: str, values: Sequence[Any]) -> None:
        """Change the row; who does not find it as it was has to fence and look again."""
        if not self._change(sql, values):
            raise SlotLostError(LookupError("somebody else has changed the branch"))

    def _change(self, sql: str, values: Sequence[Any]) -> int:
        with self._turn:
            return self._execute(sql, values).rowcount

    def _rows(self, sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        with self._turn:
            return self._execute(sql, values).fetchall()

    def _execute(self, sql: str, values: Sequence[Any]) -> "psycopg.Cursor[dict[str, Any]]":
        try:
            session = self._session = self._session or raw_connection("sluice xa log")
            return session.cursor(row_factory=dict_row).execute(sql, values)
        except psycopg.Error as problem:
            self._drop()
            raise XaUnavailableError(self._name, str(problem).strip()) from problem

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _branch(row: dict[str, Any]) -> Branch:
    """What a look sees: one that is being delivered is what it was before."""
    place = row["side_partition"], row["first_offset"], row["last_offset"], row["messages"]
    return Branch(
        xid=Xid.parse(row["xid"]),
        state=BranchState(row["before"] or row["state"]),
        owner=row["owner"],
        mark=row["mark"],
        place=Place(*place),
        started_at=row["started_at"],
    )
