"""Branches in transactions that the package `transaction` coordinates, as Zope and Pyramid do.

The package is not imported: what it asks of a data manager is a handful of methods.
"""

from typing import Any, Final

from django.db import transaction as django_transaction

from integration.xa import decisions
from integration.xa.branch import Vote
from integration.xa.errors import XaUnknownError
from integration.xa.resource import XaResource
from integration.xa.steps import XaStep
from integration.xa.xid import Xid

# Whatever is not ours goes first, then our database, whose commit decides, then Kafka.
_AFTER_OTHERS: Final = "~sluice"
_databases: dict[str, object] = {}


class KafkaDataManager:
    """Implements IDataManager for a branch.

    With a database of ours the commit of that decides; without one the coordinator does, and
    a branch that it left prepared is kept for it.
    """

    def __init__(
        self, manager: Any, resource: XaResource, xid: Xid, database: "DatabaseManager | None"
    ) -> None:
        self.transaction_manager = manager
        self._resource, self._xid, self._database = resource, xid, database
        self._vote = Vote.READ_ONLY
        self._is_prepared = False

    def abort(self, _transaction: Any) -> None:
        decisions.give_up(self._resource, self._xid, may_be_decided=False)

    def tpc_begin(self, _transaction: Any) -> None:
        pass

    def commit(self, _transaction: Any) -> None:
        if self._database is not None and self._resource.has_sent(self._xid):
            self._database.decide(self._resource, self._xid)
        self._resource.end(self._xid)

    def tpc_vote(self, _transaction: Any) -> None:
        self._vote = self._resource.prepare(self._xid)
        self._is_prepared = self._vote is Vote.READY

    def tpc_finish(self, _transaction: Any) -> None:
        if self._vote is Vote.READ_ONLY:
            return
        if self._database is not None:
            decisions.finish(self._resource, self._xid, self._database.using)
            return
        try:
            self._resource.commit(self._xid)
        except XaUnknownError:
            # Somebody has done it already.
            return
        finally:
            # The package does not ask again.
            self._resource.let_go(self._xid)

    def tpc_abort(self, _transaction: Any) -> None:
        may_be_decided = self._is_prepared and self._database is not None
        decisions.give_up(self._resource, self._xid, may_be_decided=may_be_decided)

    def sortKey(self) -> str:  # noqa: N802 - the interface's own name
        return f"{_AFTER_OTHERS}:kafka:{self._resource.name}:{self._xid}"


class DatabaseManager:
    """Implements IDataManager for a transaction of a database of ours, whose commit decides."""

    def __init__(self, manager: Any, using: str) -> None:
        self.transaction_manager = manager
        self.using = using
        self._branches: list[XaResource] = []
        self._atomic: Any = django_transaction.atomic(using=using, durable=True)
        self._atomic.__enter__()

    def decide(self, resource: XaResource, xid: Xid) -> None:
        decisions.decide_for(resource, xid, self.using)
        self._branches.append(resource)

    def abort(self, _transaction: Any) -> None:
        atomic, self._atomic = self._atomic, None
        if atomic is not None:
            django_transaction.set_rollback(True, using=self.using)
            atomic.__exit__(None, None, None)

    def tpc_begin(self, _transaction: Any) -> None:
        pass

    def commit(self, _transaction: Any) -> None:
        pass

    def tpc_vote(self, _transaction: Any) -> None:
        if django_transaction.get_rollback(using=self.using):
            # Django would roll back without an error, after others have committed.
            raise django_transaction.TransactionManagementError(
                f"The transaction of the database {self.using!r} can only be rolled back: an error "
                "or its own code has marked it so, or its session has ended."
            )

    def tpc_finish(self, _transaction: Any) -> None:
        atomic, self._atomic = self._atomic, None
        atomic.__exit__(None, None, None)
        for resource in self._branches:
            resource.observer(XaStep.DECIDED)

    def tpc_abort(self, transaction: Any) -> None:
        self.abort(transaction)

    def sortKey(self) -> str:  # noqa: N802 - the interface's own name
        return f"{_AFTER_OTHERS}:database:{self.using}"


def join(manager: Any, resource: XaResource, using: str | None) -> Xid:
    """Begin a branch in the manager's transaction; with `using`, also one of that database."""
    current = manager.get()
    database = None if using is None else _database_in(current, manager, using)
    xid = decisions.fresh_xid(using) if using is not None else Xid.fresh(0)
    resource.start(xid)
    try:
        current.join(KafkaDataManager(manager, resource, xid, database))
    except BaseException:
        resource.rollback(xid)
        raise
    return xid


def _database_in(current: Any, manager: Any, using: str) -> DatabaseManager:
    """The one of this transaction: several branches may belong to it."""
    key = _databases.setdefault(using, object())
    try:
        found: DatabaseManager = current.data(key)
    except KeyError:
        found = DatabaseManager(manager, using)
        try:
            current.join(found)
        except BaseException:
            # The transaction takes nobody any more: Django's is not to stay open for it.
            found.abort(current)
            raise
        current.set_data(key, found)
    return found
