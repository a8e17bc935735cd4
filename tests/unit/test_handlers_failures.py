"""Every exception a handler can end in comes to one failure, told without payloads."""

import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import DataError, IntegrityError, OperationalError, models
from django.db.transaction import TransactionManagementError
from psycopg import errors as pg

from integration.documents.refusals import permanent, tidied
from integration.handlers.failures import (
    LOST,
    RULES,
    BatchItemError,
    MissingDependencyError,
    OutageError,
    PermanentError,
    QueueLockTimeoutError,
    TransientError,
    classify,
    missing_dependency,
)
from integration.handlers.payloads import PayloadFormatError, PayloadTooLargeError
from integration.handlers.traces import DETAIL_LIMIT_BYTES
from integration.policy.failure import Failure, FailureClass
from sample.models import Asset

pytestmark = pytest.mark.fast

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "handlers.md"


def raised(exception: BaseException) -> Failure:
    with pytest.raises(type(exception)) as caught:
        raise exception
    return classify(caught.value)


def caused(exception: Exception, cause: Exception) -> Exception:
    """As `raise exception from cause`."""
    exception.__cause__ = cause
    return exception


def meanwhile(exception: Exception, handled: Exception) -> Exception:
    """As `raise exception` while `handled` was being handled."""
    exception.__context__ = handled
    return exception


def from_driver(outer: type[Exception], inner: Exception) -> Exception:
    """A database error as Django hands it on."""
    return caused(outer(*inner.args), inner)


@pytest.mark.parametrize(
    ("exception", "kind", "code"),
    [
        (ValidationError("no"), "permanent", "VALIDATION"),
        (jsonschema.ValidationError("no"), "permanent", "SCHEMA_VIOLATION"),
        (DataError("no"), "permanent", "DATA_ERROR"),
        (from_driver(DataError, pg.NumericValueOutOfRange("no")), "permanent", "DATA_ERROR"),
        (from_driver(IntegrityError, pg.NotNullViolation()), "permanent", "NOT_NULL_VIOLATION"),
        (from_driver(IntegrityError, pg.CheckViolation()), "permanent", "CHECK_VIOLATION"),
        (
            from_driver(IntegrityError, pg.ForeignKeyViolation()),
            "dependency",
            "FOREIGN_KEY_VIOLATION",
        ),
        (Asset.DoesNotExist("no"), "dependency", "OBJECT_MISSING"),
        (from_driver(IntegrityError, pg.UniqueViolation()), "transient", "UNIQUE_VIOLATION"),
        (from_driver(OperationalError, pg.LockNotAvailable()), "transient", "LOCK_NOT_AVAILABLE"),
        (from_driver(OperationalError, pg.QueryCanceled()), "transient", "STATEMENT_TIMEOUT"),
        (from_driver(OperationalError, pg.DeadlockDetected()), "conflict", "DEADLOCK"),
        (
            from_driver(OperationalError, pg.SerializationFailure()),
            "conflict",
            "SERIALIZATION_FAILURE",
        ),
        (from_driver(OperationalError, pg.AdminShutdown()), "outage", "DATABASE_SHUTDOWN"),
        (from_driver(OperationalError, pg.CannotConnectNow()), "outage", "DATABASE_SHUTDOWN"),
        (
            from_driver(OperationalError, psycopg.OperationalError("the connection is lost")),
            "outage",
            "DATABASE_LOST",
        ),
        (ConnectionRefusedError("no"), "outage", "CONNECTION_ERROR"),
        (PermanentError("no", code="NO_SITE"), "permanent", "NO_SITE"),
        (TransientError("later"), "transient", "TRANSIENT_ERROR"),
        (MissingDependencyError("asset", "7"), "dependency", "MISSING_DEPENDENCY"),
        (OutageError("the ERP is down"), "outage", "OUTAGE"),
        (RuntimeError("odd"), "transient", "RUNTIME_ERROR"),
        (from_driver(OperationalError, pg.OutOfMemory()), "transient", "OUT_OF_MEMORY"),
        (TransactionManagementError("no"), "permanent", "SWALLOWED_DATABASE_ERROR"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_exception_has_one_class_and_code(exception: Exception, kind: str, code: str) -> None:
    failure = raised(exception)
    assert (failure.kind, failure.code) == (kind, code)


def test_the_outermost_known_exception_decides() -> None:
    known = PermanentError("this partner is never there")
    assert raised(caused(known, ConnectionError("gone"))).kind is FailureClass.PERMANENT


def test_an_unknown_exception_is_what_it_was_raised_from() -> None:
    missing = ObjectDoesNotExist("no such asset")
    for failure in (
        raised(caused(RuntimeError("giving up"), missing)),
        raised(meanwhile(RuntimeError("giving up"), missing)),
    ):
        assert (failure.kind, failure.text) == ("dependency", "no such asset")


def test_a_denied_cause_does_not_count() -> None:
    exception = meanwhile(RuntimeError("unrelated"), ConnectionError("gone"))
    exception.__suppress_context__ = True  # as `raise … from None`
    assert raised(exception).code == "RUNTIME_ERROR"


def test_a_batch_item_is_what_it_was_raised_from() -> None:
    item = caused(BatchItemError(3), PermanentError("no", code="NO_SITE"))
    assert raised(item).code == "NO_SITE"
    assert raised(BatchItemError(3)).code == "BATCH_ITEM"


def test_a_swallowed_deadlock_is_still_a_deadlock() -> None:
    deadlock = from_driver(OperationalError, pg.DeadlockDetected())
    broken = caused(TransactionManagementError("broken"), deadlock)
    assert raised(broken).kind is FailureClass.CONFLICT


def test_an_exception_that_causes_itself_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).code == "VALUE_ERROR"


def test_an_exception_that_cannot_be_shown_is_told() -> None:
    class Shy(Exception):  # noqa: N818 - a handler may name it so
        def __str__(self) -> str:
            raise ValueError

    failure = raised(Shy())
    assert failure.code == "SHY"
    assert "cannot be read" in failure.text


def test_texts_can_be_stored_whatever_is_in_them() -> None:
    failure = raised(ValueError("a\0b\ud800c" + "x" * 9_000))
    failure.text.encode()
    assert "\0" not in failure.text + failure.detail
    assert len(failure.text) <= 4_000


def test_codes_can_be_stored_whatever_is_in_them() -> None:
    long = type("A" * 100, (Exception,), {})
    assert len(raised(long()).code) == 60
    assert permanent("no", "no such-Site!").code == "NO_SUCH_SITE"
    assert tidied(Failure(FailureClass.PERMANENT, "", "no")).code == "UNNAMED"


def complaint(call: Any, *arguments: Any) -> Exception:
    """What a call says about arguments that it does not take."""
    try:
        call(*arguments)
    except (ValidationError, ValueError) as e:
        return e
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("exception", "kept"),
    [
        (
            complaint(Asset(status="SECRET").clean_fields),
            "status: This value is not a valid choice",
        ),
        (complaint(Asset(siteid="SECRET" * 9).clean_fields), "at most 8 characters (it has 54)."),
        (complaint(Asset(installed_on="SECRET").clean_fields), "installed_on: This value has an"),
        (
            ValidationError("It is %(n)d long: %(v)s", params={"n": 6, "v": "SECRET"}),
            "is … long: …",
        ),
        (ValidationError({"n": ["Give a number."]}), "n: Give a number."),
        (complaint(models.IntegerField(name="n").get_prep_value, "SECRET"), "Field 'n' expected a"),
        (complaint(int, "SECRET"), "invalid literal for int() with base 10: …"),
        (complaint(float, "SECRET"), "could not convert string to float: …"),
        (complaint(date.fromisoformat, "SECRET"), "Invalid isoformat string: …"),
        (complaint(datetime.strptime, "2026SECRET", "%Y"), "unconverted data remains: …"),
        (ValueError("can't read 'SECRET' of the asset's row"), "can't read … of the asset's row"),
        (ValueError("cut off: 'SECR\\'SECRET"), "cut off: …"),
        (complaint(datetime.strptime, "SECRET", "%Y"), "data … does not match format '%Y'"),
        (TypeError("expected 'SECRET' to be int, not 'NoneType'"), "… to be int, not 'NoneType'"),
        (TypeError("f() got an unexpected keyword argument 'siteid'"), "argument 'siteid'"),
    ],
)
def test_what_is_said_of_a_failure_quotes_no_value(exception: Exception, kept: str) -> None:
    failure = classify(exception)
    assert kept in failure.text
    assert "SECRET" not in failure.text + failure.detail


def test_the_schema_s_message_does_not_quote_the_document() -> None:
    schema = {"properties": {"lines": {"items": {"required": ["qty"], "type": "object"}}}}
    validator = jsonschema.Draft202012Validator(schema)
    for document in ({"lines": [{"iban": "SECRET"}]}, {"lines": ["SECRET"]}):
        failure = classify(next(validator.iter_errors(document)))
        assert "$.lines[0]" in failure.text
        assert "SECRET" not in failure.text + failure.detail


@pytest.mark.parametrize(
    ("bug", "last"), [(KeyError("kwh"), "KeyError: 'kwh'"), (ValueError(), "ValueError")]
)
def test_the_detail_names_a_class_once(bug: Exception, last: str) -> None:
    assert raised(bug).detail.splitlines()[-1] == last


def test_the_detail_holds_the_frames_and_is_bounded() -> None:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        raise ValueError("deep" * 2_000)

    try:
        deep(200)
    except ValueError as e:
        failure = classify(e)
    assert len(failure.detail.encode()) <= DETAIL_LIMIT_BYTES
    assert "in deep" in failure.detail
    assert __file__ in failure.detail


def test_missing_objects_of_one_kind_are_one_group() -> None:
    one, other = missing_dependency("asset", "N/1"), missing_dependency("asset", "it's")
    assert one.fingerprint == raised(MissingDependencyError("asset", "S/2")).fingerprint
    assert one.kind is other.kind is FailureClass.DEPENDENCY


def test_the_guide_shows_the_very_table() -> None:
    row = re.compile(r"^\| (`.+?`) +\| (\w+) +\| `(\w+)` +\|", re.MULTILINE)
    shown = {
        (name, kind, code)
        for names, kind, code in row.findall(GUIDE.read_text())
        for name in re.findall(r"`([\w.]+)`", names)
    }
    wanted = {
        (f"{_library(kind)}{kind.__name__}", str(rule.kind), rule.code)
        for rule in (*RULES, LOST)
        for kind in rule.types
    }
    ours = [PermanentError, TransientError, MissingDependencyError, OutageError]
    ours += [PayloadFormatError, PayloadTooLargeError, QueueLockTimeoutError]
    wanted |= {(kind.__name__, str(kind.kind), kind.code) for kind in ours}
    wanted |= {("ForeignDatabaseError", "permanent", "FOREIGN_DATABASE")}
    assert shown == wanted


def _library(kind: type[BaseException]) -> str:
    """The prefix under which the guide names a type, where its name alone could be two."""
    if kind is DataError:
        return "django.db."
    if kind in {ValidationError, jsonschema.ValidationError}:
        return "django." if kind is ValidationError else "jsonschema."
    return "psycopg." if kind in {psycopg.DataError, psycopg.OperationalError} else ""
