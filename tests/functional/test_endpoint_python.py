"""Endpoint functions: what they raise and return, and calls that do not come back."""

import threading
import time

import pytest

from integration.endpoint_types.opening import opened
from integration.endpoint_types.python.endpoint import MAX_HANGING
from integration.endpoints.port import Accepted, Later, Refused, Unknown, Unreachable
from integration.endpoints.registry import EndpointFunctionConflictError, endpoint_function
from integration.handlers import OutageError, PermanentError, TransientError, permanent
from tests.contract.endpoint_worlds import an_endpoint, an_outbound_message

pytestmark = pytest.mark.fast
LEAVING = threading.Event()


def an_error(problem):
    def fail():
        raise problem

    return fail


DOINGS = {
    "nothing": lambda: None,
    "accepted": lambda: Accepted(text="by the function", status=7),
    "failure": lambda: permanent("Never.", code="NO_WAY"),
    "permanent": an_error(PermanentError("Never.")),
    "transient": an_error(TransientError("Not now.")),
    "outage": an_error(OutageError("It is down.")),
    "refused": an_error(ConnectionRefusedError("nobody there")),
    "odd": an_error(KeyError("x")),
    "number": lambda: 7,
    "hang": lambda: LEAVING.wait(20),
}


@endpoint_function("tests.python")
def do(message):
    return DOINGS[message.key]()


def an_opened(**properties):
    return opened(an_endpoint("python", {"function": "tests.python", **properties}))


@pytest.mark.parametrize(
    ("key", "ending", "code"),
    [
        ("nothing", Accepted, ""),
        ("accepted", Accepted, ""),
        ("failure", Refused, "NO_WAY"),
        ("permanent", Refused, "PERMANENT_ERROR"),
        ("transient", Later, "TRANSIENT_ERROR"),
        ("outage", Unreachable, "OUTAGE"),
        ("refused", Unreachable, "CONNECTION_ERROR"),
        ("odd", Later, "KEY_ERROR"),
        ("number", Unknown, "FUNCTION_ANSWER"),
    ],
)
def test_what_a_function_does_is_an_answer(key, ending, code):
    endpoint = an_opened()
    (answer,) = endpoint.deliver([an_outbound_message("m1", key=key)])
    assert (type(answer), answer.code) == (ending, code)
    is_worded_here = key in {"nothing", "number"}
    assert answer.may_quote is not is_worded_here
    endpoint.close()


def test_a_function_that_hangs_is_left_alone_and_no_more_are_begun_than_bearable():
    endpoint = an_opened(total_seconds=0.1)
    begun = time.monotonic()
    answers = [
        endpoint.deliver([an_outbound_message("m1", key="hang")])[0] for _ in range(MAX_HANGING + 1)
    ]
    assert [type(one) for one in answers] == [Unknown] * MAX_HANGING + [Unreachable]
    assert {one.code for one in answers} == {"FUNCTION_HANGS"}
    assert not any(one.may_quote for one in answers)
    assert time.monotonic() - begun < 15
    LEAVING.set()
    endpoint.close()


def test_two_functions_of_one_name_are_refused():
    with pytest.raises(EndpointFunctionConflictError, match=r"tests\.python"):

        @endpoint_function("tests.python")
        def other(message):
            return None
