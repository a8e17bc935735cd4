"""An outage is what an error was caused by, not what was being handled when it was raised."""

import psycopg
import pytest
from django.db import DatabaseError, InternalError, OperationalError
from psycopg import errors as pg

from crontasks.running.outage import is_of_database, is_of_others
from integration.delivery.ports import LostError

pytestmark = pytest.mark.fast


def from_driver(outer: type[DatabaseError], inner: psycopg.Error) -> DatabaseError:
    """A database error as Django hands it on."""
    error = outer(*inner.args)
    error.__cause__ = inner
    return error


def away() -> DatabaseError:
    return from_driver(OperationalError, pg.AdminShutdown("terminating connection"))


def deadlock() -> DatabaseError:
    return from_driver(OperationalError, pg.DeadlockDetected("deadlock detected"))


def meanwhile(error: BaseException, handled: BaseException) -> BaseException:
    """The error as it is once it was raised while `handled` was handled."""
    try:
        try:
            raise handled
        except type(handled):
            # As Django does: what the driver raised has the context, and is the cause.
            if isinstance(error.__cause__, psycopg.Error):
                error.__cause__.__context__ = handled
            raise error  # noqa: B904 - the subject of these tests
    except type(error) as caught:
        return caught


def test_a_mistake_made_while_an_outage_was_handled_stays_a_mistake() -> None:
    assert is_of_database(away())
    assert not is_of_database(meanwhile(KeyError("siteid"), away()))
    assert not is_of_database(meanwhile(LostError("another"), away()))


def test_what_the_database_refuses_after_an_outage_or_a_deadlock_is_neither() -> None:
    mistake = from_driver(InternalError, pg.InternalError_("no such thing"))
    assert not is_of_database(meanwhile(mistake, away()))
    assert not is_of_others(meanwhile(mistake, deadlock()))


def test_what_is_raised_from_an_outage_is_of_it() -> None:
    lost = LostError("the session is gone")
    lost.__cause__ = away()
    assert is_of_database(lost)


def test_an_outage_met_while_a_mistake_was_handled_is_an_outage() -> None:
    assert is_of_database(meanwhile(away(), KeyError("siteid")))


def test_a_transaction_that_an_outage_has_spoilt_is_of_it() -> None:
    full = from_driver(OperationalError, pg.DiskFull("no space left"))
    spoilt = from_driver(InternalError, pg.InFailedSqlTransaction("aborted"))
    assert is_of_database(meanwhile(spoilt, full))
