"""Xids as X/Open has them: limits, and the text that is read back."""

import pytest

from integration.xa.errors import XaTimedOutError, XidInvalidError, xa_code
from integration.xa.xid import Xid

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "xid", [Xid(0, b"\x00"), Xid(2**31 - 1, b"g" * 64, b"b" * 64), Xid.fresh(7, b"here")]
)
def test_what_is_written_is_read_back(xid):
    assert Xid.parse(str(xid)) == xid


@pytest.mark.parametrize(
    ("number", "global_id", "branch"),
    [(-1, b"g", b""), (2**31, b"g", b""), (0, b"", b""), (0, b"g" * 65, b""), (0, b"g", b"b" * 65)],
)
def test_what_is_beyond_the_limits_is_no_xid(number, global_id, branch):
    with pytest.raises(XidInvalidError):
        Xid(number, global_id, branch)


@pytest.mark.parametrize("text", ["", "1", "1-67", "x-67-", "1-6-", "1--", "1-67-62-", "1-6G-62"])
def test_any_other_text_is_refused_with_a_code(text):
    with pytest.raises(XidInvalidError) as told:
        Xid.parse(text)
    assert xa_code(told.value) == ("XAER_INVAL", -5)


def test_whatever_goes_wrong_has_a_number_for_a_coordinator():
    assert xa_code(XaTimedOutError("x", 5)) == ("XA_RBTIMEOUT", 106)
    assert xa_code(OSError()) == ("XAER_RMFAIL", -7)
